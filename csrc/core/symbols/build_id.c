/* Notes are found by the program headers (PT_NOTE) or, in files without these, such as kernel modules, by the section headers
 * (SHT_NOTE). A note is {u32 name size, u32 desc size, u32 type, name, desc}, with name and desc padded to 4. Only the header
 * tables and the notes are read, each of bounded size. */
#include "core/symbols/build_id.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>

#include "core/base/sys.h"

#define MAX_HEADERS 1024u /* entries of a header table */
#define CHUNK 4096u       /* bytes of notes that are read at once */

struct elf {
	int fd, wide, swapped;
};

/* Read size bytes at offset. -ENOEXEC if the file is shorter. */
static int at(const struct elf *e, uint64_t offset, void *out, size_t size)
{
	ssize_t got;

	if (offset > INT64_MAX)
		return -ENOEXEC;
	do {
		got = pf_sys->pread(e->fd, out, size, (off_t)offset);
	} while (got == -EINTR);
	if (got < 0)
		return (int)got;
	return (size_t)got == size ? 0 : -ENOEXEC;
}

static uint64_t number(const struct elf *e, const unsigned char *p, unsigned width)
{
	uint64_t v = 0;
	int little = (__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__) != e->swapped;

	for (unsigned i = 0; i < width; i++)
		v |= (uint64_t)p[i] << 8 * (little ? i : width - 1 - i);
	return v;
}

/* Look for the note in n bytes. */
static int find_note(const struct elf *e, const unsigned char *p, size_t n, struct pf_build_id *out)
{
	while (n >= 12) {
		uint64_t name = number(e, p, 4), desc = number(e, p + 4, 4), type = number(e, p + 8, 4);
		uint64_t name_padded = (name + 3) & ~UINT64_C(3), desc_padded = (desc + 3) & ~UINT64_C(3);

		if (name_padded > n - 12 || desc > n - 12 - name_padded)
			return -ENODATA;
		if (type == NT_GNU_BUILD_ID && name == 4 && memcmp(p + 12, "GNU", 4) == 0 && desc > 0) {
			out->size = (unsigned char)(desc < PF_BUILD_ID_MAX ? desc : PF_BUILD_ID_MAX);
			memcpy(out->bytes, p + 12 + name_padded, out->size);
			return 0;
		}
		if (desc_padded > n - 12 - name_padded)
			return -ENODATA;
		p += 12 + name_padded + desc_padded;
		n -= (size_t)(12 + name_padded + desc_padded);
	}
	return -ENODATA;
}

/* Search the first CHUNK bytes of a segment or section of notes: real files have their build id there. */
static int notes_at(const struct elf *e, uint64_t offset, uint64_t size, struct pf_build_id *out)
{
	unsigned char chunk[CHUNK];
	size_t n = size < sizeof chunk ? (size_t)size : sizeof chunk;
	int r = at(e, offset, chunk, n);

	return r < 0 ? r : find_note(e, chunk, n, out);
}

/* Search one header table. entry: the size of an entry; field: where in an entry its type, offset and size are. */
static int search(const struct elf *e, uint64_t table, uint64_t count, uint64_t entry, const unsigned field[3], uint32_t type,
		  struct pf_build_id *out)
{
	unsigned char h[64];
	size_t size = e->wide ? (type == PT_NOTE ? sizeof(Elf64_Phdr) : sizeof(Elf64_Shdr))
			      : (type == PT_NOTE ? sizeof(Elf32_Phdr) : sizeof(Elf32_Shdr));
	unsigned width = e->wide ? 8 : 4;

	if (count > MAX_HEADERS || (count > 0 && entry < size) || entry > 4096)
		return -ENOEXEC;
	for (uint64_t i = 0; i < count; i++) {
		int r = at(e, table + i * entry, h, size);

		if (r < 0)
			return r;
		if (number(e, h + field[0], 4) != type)
			continue;
		r = notes_at(e, number(e, h + field[1], width), number(e, h + field[2], width), out);
		if (r != -ENODATA)
			return r;
	}
	return -ENODATA;
}

static int from_elf(struct elf *e, struct pf_build_id *out)
{
	static const unsigned phdr[2][3] = {{offsetof(Elf32_Phdr, p_type), offsetof(Elf32_Phdr, p_offset), offsetof(Elf32_Phdr, p_filesz)},
					    {offsetof(Elf64_Phdr, p_type), offsetof(Elf64_Phdr, p_offset), offsetof(Elf64_Phdr, p_filesz)}};
	static const unsigned shdr[2][3] = {{offsetof(Elf32_Shdr, sh_type), offsetof(Elf32_Shdr, sh_offset), offsetof(Elf32_Shdr, sh_size)},
					    {offsetof(Elf64_Shdr, sh_type), offsetof(Elf64_Shdr, sh_offset), offsetof(Elf64_Shdr, sh_size)}};
	unsigned char h[sizeof(Elf64_Ehdr)];
	int r = at(e, 0, h, sizeof(Elf32_Ehdr));

	if (r < 0)
		return r;
	if (memcmp(h, ELFMAG, SELFMAG) != 0 || (h[EI_CLASS] != ELFCLASS32 && h[EI_CLASS] != ELFCLASS64))
		return -ENOEXEC;
	e->wide = h[EI_CLASS] == ELFCLASS64;
	e->swapped = (h[EI_DATA] == ELFDATA2LSB) != (__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__);
	if (e->wide) {
		r = at(e, 0, h, sizeof(Elf64_Ehdr));
		if (r < 0)
			return r;
	}
#define FIELD(name, width)                                                                       \
	number(e, h + (e->wide ? offsetof(Elf64_Ehdr, name) : offsetof(Elf32_Ehdr, name)), width)
	r = search(e, FIELD(e_phoff, e->wide ? 8 : 4), FIELD(e_phnum, 2), FIELD(e_phentsize, 2), phdr[e->wide], PT_NOTE, out);
	if (r != -ENODATA)
		return r;
	return search(e, FIELD(e_shoff, e->wide ? 8 : 4), FIELD(e_shnum, 2), FIELD(e_shentsize, 2), shdr[e->wide], SHT_NOTE,
		      out);
#undef FIELD
}

int pf_build_id_of_fd(int fd, struct pf_build_id *out)
{
	struct elf e = {.fd = fd};
	struct stat st;
	int r = pf_sys->fstat(fd, &st);

	return r < 0 ? r : S_ISREG(st.st_mode) ? from_elf(&e, out) : -ENOEXEC;
}

int pf_build_id_of_file(const char *path, struct pf_build_id *out)
{
	/* Do not wait for the writer of a fifo, nor make a terminal the controlling one. */
	int fd = pf_sys->open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY, 0), r;

	if (fd < 0)
		return fd;
	r = pf_build_id_of_fd(fd, out);
	pf_sys->close(fd);
	return r;
}

int pf_build_id_of_kernel(struct pf_build_id *out)
{
	struct elf e = {.fd = pf_sys->open("/sys/kernel/notes", O_RDONLY, 0)};
	unsigned char notes[CHUNK];
	ssize_t n;

	if (e.fd < 0)
		return e.fd;
	n = pf_sys->read(e.fd, notes, sizeof notes);
	pf_sys->close(e.fd);
	return n < 0 ? (int)n : find_note(&e, notes, (size_t)n, out);
}
