/* Files that the build includes unchanged. The build runs in the root of the repository: the paths begin there. */
#ifndef PB_EMBED_H
#define PB_EMBED_H

/* A hidden symbol, which only this library sees. It is global, since link-time optimization may separate the text of the assembler
 * from the C code. */
#define PB_EMBED_SYMBOL(name) ".global pb_file_" #name "\n.hidden pb_file_" #name "\npb_file_" #name ":\n"
#define PB_EMBED(name, path)                                                                                                      \
	extern const char pb_file_##name[], pb_file_##name##_end[] __attribute__((visibility("hidden")));                        \
	__asm__(".pushsection .rodata\n" PB_EMBED_SYMBOL(name) ".incbin \"" path "\"\n" PB_EMBED_SYMBOL(name##_end)          \
		".popsection\n");

#endif
