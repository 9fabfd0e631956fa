/* mpi4py ends MPI when Python has ended, where it started it: too early for us, since nobody knows the exit status then,
 * and MPI_Finalize waits for peers that may sit in a wait of ours for a PE that has failed. So that one call is put off
 * until the exit handler (exit.c), which knows: the entry for MPI_Finalize in the table through which mpi4py's module
 * calls other libraries is made to point here. A call while Python runs is the program's own and goes on to MPI. Where
 * no such entry is found nothing changes, and a PE that ends with a failure is missed by its peers only in time. */
#include "core.h"

#include <elf.h>
#include <link.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#if defined(__x86_64__)
enum { JUMP_SLOT = R_X86_64_JUMP_SLOT, GLOB_DAT = R_X86_64_GLOB_DAT };
#elif defined(__aarch64__)
enum { JUMP_SLOT = R_AARCH64_JUMP_SLOT, GLOB_DAT = R_AARCH64_GLOB_DAT };
#endif

typedef int (*function)(void);

static function mpi_finalize, python_runs;

static int finalize(void) { return !python_runs() && sm_exit_comes() ? 0 : mpi_finalize(); }

typedef struct {                            /* the object to change, and what its loader's tables say */
    const char *path;
    int changed;
    uintptr_t base, protected, protected_end;
    const char *names;
    const ElfW(Sym) *symbols;
} object;

/* Tables hold addresses that the C library has made absolute (glibc) or left as they are in the file (musl). */
static const void *table(const object *o, ElfW(Addr) at) { return (const void *)(at < o->base ? o->base + at : at); }

static void redirect(object *o, uintptr_t slot) {
    uintptr_t size = (uintptr_t)sysconf(_SC_PAGESIZE), page = slot & ~(size - 1);
    if (mprotect((void *)page, size, PROT_READ | PROT_WRITE)) return;
    __atomic_store_n((function *)slot, finalize, __ATOMIC_RELEASE);
    if (page + size > o->protected && page + size <= o->protected_end) mprotect((void *)page, size, PROT_READ);
    o->changed++;
}

static void scan(object *o, const ElfW(Rela) *entry, uint64_t bytes) {
    for (const ElfW(Rela) *end = entry + bytes / sizeof *entry; entry < end; entry++) {
        uint64_t type = ELF64_R_TYPE(entry->r_info);
        if (type != JUMP_SLOT && type != GLOB_DAT) continue;
        const ElfW(Sym) *symbol = o->symbols + ELF64_R_SYM(entry->r_info);
        if (!strcmp(o->names + symbol->st_name, "MPI_Finalize")) redirect(o, o->base + entry->r_offset);
    }
}

static void scan_all(object *o, const ElfW(Dyn) *d) {
    const ElfW(Rela) *calls = NULL, *data = NULL;
    uint64_t calls_bytes = 0, data_bytes = 0;
    for (; d->d_tag != DT_NULL; d++) {
        switch (d->d_tag) {
        case DT_STRTAB: o->names = table(o, d->d_un.d_ptr); break;
        case DT_SYMTAB: o->symbols = table(o, d->d_un.d_ptr); break;
        case DT_JMPREL: calls = table(o, d->d_un.d_ptr); break;
        case DT_PLTRELSZ: calls_bytes = d->d_un.d_val; break;
        case DT_RELA: data = table(o, d->d_un.d_ptr); break;
        case DT_RELASZ: data_bytes = d->d_un.d_val; break;
        }
    }
    if (!o->names || !o->symbols) return;
    if (calls) scan(o, calls, calls_bytes);
    if (data) scan(o, data, data_bytes);
}

static int visit(struct dl_phdr_info *info, size_t size, void *wanted) {
    (void)size;
    object *o = wanted;
    const ElfW(Dyn) *dynamic = NULL;
    if (strcmp(info->dlpi_name, o->path)) return 0;
    o->base = info->dlpi_addr;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &info->dlpi_phdr[i];
        if (part->p_type == PT_DYNAMIC) dynamic = (const ElfW(Dyn) *)(o->base + part->p_vaddr);
        if (part->p_type == PT_GNU_RELRO) {
            o->protected = o->base + part->p_vaddr;
            o->protected_end = o->protected + part->p_memsz;
        }
    }
    if (dynamic) scan_all(o, dynamic);
    return 1;
}

int sm_defer_finalize(const char *path, uint64_t finalize_of_mpi, uint64_t is_initialized_of_python) {
    object o = {.path = path};
    mpi_finalize = (function)(uintptr_t)finalize_of_mpi;
    python_runs = (function)(uintptr_t)is_initialized_of_python;
    dl_iterate_phdr(visit, &o);
    return o.changed;
}
