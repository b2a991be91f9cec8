/* One ELF file: the offset of a symbol's code, the build id, the mapping.
 *
 * A uprobe needs an offset in the file, but a symbol has an address. The program headers relate the two: a PT_LOAD maps p_filesz
 * bytes from p_offset on at p_vaddr. That holds for PIE and shared objects (addresses from about 0) and for other files (addresses
 * from about 0x400000).
 *
 * Versioned symbols: .dynsym has the bare name, and its version in tables beside it; .symtab writes name@VERSION, or
 * name@@VERSION for the version that a bare name means. */
#include "ext/symbols/symbols.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

/* The symbol that is searched, and the best match so far. */
struct search {
	const char *name, *version; /* version NULL: the default one */
	size_t name_size;
	int rank; /* the best match's rank; 0: none yet */
	uint64_t addr;
	int type;
	int ambiguous; /* matches of the same rank have other addresses */
	int imported;  /* an undefined symbol of that name was found */
};

/* The version of .dynsym's symbol i, or NULL. *hidden: a name without a version does not mean this version. */
static const char *version_of(Elf *elf, Elf_Data *versym, Elf_Scn *verdef, int i, int *hidden)
{
	GElf_Versym v;
	GElf_Shdr sh;
	Elf_Data *data = verdef ? elf_getdata(verdef, NULL) : NULL;
	size_t at = 0;

	*hidden = 0;
	if (!versym || !data || !gelf_getversym(versym, i, &v) || !gelf_getshdr(verdef, &sh))
		return NULL;
	*hidden = (v & 0x8000) != 0;
	for (size_t n = 0; n < sh.sh_info; n++) {
		GElf_Verdef def;
		GElf_Verdaux aux;

		if (!gelf_getverdef(data, (int)at, &def))
			return NULL;
		if (def.vd_ndx == (v & 0x7fff) && !(def.vd_flags & VER_FLG_BASE) && def.vd_aux < INT32_MAX - at &&
		    gelf_getverdaux(data, (int)(at + def.vd_aux), &aux))
			return elf_strptr(elf, sh.sh_link, aux.vda_name);
		if (def.vd_next == 0 || def.vd_next >= INT32_MAX - at) /* move only forward: the file may be damaged */
			return NULL;
		at += def.vd_next;
	}
	return NULL;
}

/* The rank of a match: functions before symbols without a type; global before weak before local; the default version before others.
 * 0 = no match. */
static int rank_of(const struct search *s, const GElf_Sym *sym, const char *name, const char *version, int hidden)
{
	const char *at = strchr(name, '@');
	size_t size = at ? (size_t)(at - name) : strlen(name);
	int type = GELF_ST_TYPE(sym->st_info), bind = GELF_ST_BIND(sym->st_info), rank;

	if (size != s->name_size || memcmp(name, s->name, size) != 0)
		return 0;
	if (type != STT_FUNC && type != STT_GNU_IFUNC && type != STT_NOTYPE)
		return 0;
	if (at) {
		hidden = at[1] != '@';
		version = at + (hidden ? 1 : 2);
	}
	if (s->version && (!version || strcmp(version, s->version) != 0))
		return 0;
	rank = type == STT_NOTYPE ? 0 : 100;
	rank += bind == STB_GLOBAL ? 30 : bind == STB_WEAK ? 20 : 10;
	return rank + (s->version || !hidden ? 1 : 0);
}

static void consider(struct search *s, const GElf_Sym *sym, const char *name, const char *version, int hidden, uint64_t addr)
{
	int rank = rank_of(s, sym, name, version, hidden);

	if (rank == 0)
		return;
	if (sym->st_shndx == SHN_UNDEF) {
		s->imported = 1;
	} else if (rank > s->rank) {
		s->rank = rank;
		s->addr = addr;
		s->type = GELF_ST_TYPE(sym->st_info);
		s->ambiguous = 0;
	} else if (rank == s->rank && addr != s->addr) {
		s->ambiguous = 1;
	}
}

/* Search the symbol tables in the file itself. */
static void search_file(struct search *s, Elf *elf)
{
	Elf_Scn *scn = NULL, *verdef = NULL;
	Elf_Data *versym = NULL;
	GElf_Shdr sh;

	while ((scn = elf_nextscn(elf, scn)))
		if (gelf_getshdr(scn, &sh)) {
			if (sh.sh_type == SHT_GNU_versym)
				versym = elf_getdata(scn, NULL);
			else if (sh.sh_type == SHT_GNU_verdef)
				verdef = scn;
		}
	while ((scn = elf_nextscn(elf, scn))) {
		Elf_Data *data;
		size_t n;

		if (!gelf_getshdr(scn, &sh) || (sh.sh_type != SHT_SYMTAB && sh.sh_type != SHT_DYNSYM) || !sh.sh_entsize)
			continue;
		data = elf_getdata(scn, NULL);
		n = data ? (size_t)(data->d_size / sh.sh_entsize) : 0;
		for (size_t i = 0; i < n && i < INT32_MAX; i++) {
			const char *name, *version = NULL;
			int hidden = 0;
			GElf_Sym sym;

			if (!gelf_getsym(data, (int)i, &sym))
				break;
			name = elf_strptr(elf, sh.sh_link, sym.st_name);
			if (!name || strncmp(name, s->name, s->name_size) != 0)
				continue;
			if (sh.sh_type == SHT_DYNSYM)
				version = version_of(elf, versym, verdef, (int)i, &hidden);
			consider(s, &sym, name, version, hidden, sym.st_value);
		}
	}
}

/* Search symbols that were moved to a separate debug file or compressed into .gnu_debugdata. */
static void search_debuginfo(struct search *s, const char *path)
{
	static const Dwfl_Callbacks callbacks = {.find_elf = dwfl_build_id_find_elf,
						 .find_debuginfo = dwfl_build_id_find_debuginfo,
						 .section_address = dwfl_offline_section_address};
	Dwfl *dwfl = dwfl_begin(&callbacks);
	Dwfl_Module *mod;
	int n, fd;

	if (!dwfl)
		return;
	fd = px_open_regular(path, 0);
	dwfl_report_begin(dwfl);
	mod = fd < 0 ? NULL : dwfl_report_elf(dwfl, path, path, fd, 0, true);
	if (!mod && fd >= 0)
		close(fd);
	dwfl_report_end(dwfl, NULL, NULL);
	n = mod ? dwfl_module_getsymtab(mod) : 0;
	for (int i = 0; i < n; i++) {
		GElf_Sym sym;
		GElf_Addr addr;
		const char *name = dwfl_module_getsym_info(mod, i, &sym, &addr, NULL, NULL, NULL);

		if (name)
			consider(s, &sym, name, NULL, 0, sym.st_value);
	}
	dwfl_end(dwfl);
}

/* Convert an address to an offset in the file; -1 if the bytes there are not in the file. */
static int to_offset(Elf *elf, uint64_t addr, uint64_t *out)
{
	size_t n;

	if (elf_getphdrnum(elf, &n) != 0)
		return -1;
	for (size_t i = 0; i < n; i++) {
		GElf_Phdr ph;

		if (gelf_getphdr(elf, (int)i, &ph) && ph.p_type == PT_LOAD && addr >= ph.p_vaddr &&
		    addr - ph.p_vaddr < ph.p_filesz) {
			*out = addr - ph.p_vaddr + ph.p_offset;
			return 0;
		}
	}
	return -1;
}

/* The part of px_symbol_offset that needs the file open. Returns 0 and sets *offset, or -errno. */
static int find_offset(const char *path, struct search *s, uint64_t *offset)
{
	int fd = px_open_regular(path, 0), r = 0;
	GElf_Ehdr eh;
	Elf *elf;

	if (fd < 0)
		return fd;
	elf = elf_begin(fd, ELF_C_READ_MMAP, NULL);
	if (!elf || elf_kind(elf) != ELF_K_ELF || !gelf_getehdr(elf, &eh) || (eh.e_type != ET_EXEC && eh.e_type != ET_DYN)) {
		r = -ENOEXEC;
	} else {
		search_file(s, elf);
		if (!s->rank && !s->version)
			search_debuginfo(s, path);
		if (eh.e_machine == EM_ARM) /* bit 0 marks Thumb code */
			s->addr &= ~UINT64_C(1);
		if (s->rank && !s->ambiguous && s->type != STT_GNU_IFUNC && to_offset(elf, s->addr, offset) < 0)
			r = -ENODATA;
	}
	if (elf)
		elf_end(elf);
	close(fd);
	return r;
}

/* ext.offset(path, symbol): offset, address; or nil, message, code */
int px_symbol_offset(lua_State *L)
{
	const char *path = px_check_cstring(L, 1), *symbol = px_check_cstring(L, 2), *at = strchr(symbol, '@');
	struct search s = {.name = symbol, .name_size = at ? (size_t)(at - symbol) : strlen(symbol)};
	uint64_t offset = 0;
	int r;

	luaL_argcheck(L, s.name_size > 0, 2, "symbol expected, got an empty name");
	if (at)
		s.version = at + (at[1] == '@' ? 2 : 1);
	r = find_offset(path, &s, &offset);
	if (r == -ENOEXEC)
		return pb_refuse(L, r, "%s: not an ELF program or shared object", path);
	if (r == -ENODATA)
		return pb_refuse(L, r, "%s: symbol '%s' has no bytes in this file", path, symbol);
	if (r < 0)
		return pb_fail(L, r, "%s", path);
	if (!s.rank && s.imported)
		return pb_refuse(L, -ENOENT, "%s: uses '%s' but does not define it: use the library that does", path, symbol);
	if (!s.rank)
		return pb_refuse(L, -ENOENT, "%s: no function '%s'", path, symbol);
	if (s.ambiguous)
		return pb_refuse(L, -EEXIST, "%s: several functions are named '%s': give the offset instead", path, symbol);
	if (s.type == STT_GNU_IFUNC)
		return pb_refuse(L, -EOPNOTSUPP,
			       "%s: '%s' is an indirect function: its code is chosen when the program starts, so name "
			       "that code's own symbol",
			       path, symbol);
	pb_push_u64(L, offset);
	pb_push_u64(L, s.addr);
	return 2;
}

int px_load_bias(int fd, uint64_t addr, uint64_t pgoff, uint64_t *bias, uint64_t *first)
{
	Elf *elf = elf_begin(fd, ELF_C_READ_MMAP, NULL);
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
	int found = 0, any = 0;
	size_t n;

	if (!elf || elf_kind(elf) != ELF_K_ELF || elf_getphdrnum(elf, &n) != 0)
		n = 0;
	for (size_t i = 0; i < n; i++) {
		GElf_Phdr ph;

		if (!gelf_getphdr(elf, (int)i, &ph) || ph.p_type != PT_LOAD)
			continue;
		if (!any)
			*first = ph.p_vaddr & ~(page - 1);
		any = 1;
		/* Segments may share pages of the file: prefer the executable one. */
		if (pgoff >= (ph.p_offset & ~(page - 1)) && pgoff < ph.p_offset + ph.p_filesz && (!found || (ph.p_flags & PF_X))) {
			*bias = addr - (pgoff - ph.p_offset + ph.p_vaddr);
			found = 1;
		}
	}
	if (elf)
		elf_end(elf);
	return found ? 0 : n ? -ENODATA : -ENOEXEC;
}
