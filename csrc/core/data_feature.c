/* The table of features. */
#include "data_feature.h"

const struct pf_feature pf_features[] = {
#define X(sym, bit, name, shape) {name, bit, PF_SHAPE_##shape},
#include "defs/feature.def"
#undef X
	{0, 0, PF_SHAPE_BYTES}};
