/* The table of features. */
#include "core/data/feature.h"

const struct pf_feature pf_features[] = {
#define X(sym, bit, name, shape) {name, bit, PF_SHAPE_##shape},
#include "core/data/feature.def"
#undef X
	{0, 0, PF_SHAPE_BYTES}};
