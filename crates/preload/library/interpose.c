/* The functions of malloc(3) and operator new, which count what is requested and go on to the next
 * definition: of libc, or of another allocator.
 *
 * The library needs no other library, so it is loaded by glibc and musl alike. */

#include "sampling.h"

#define EXPORT __attribute__((visibility("default")))
#define NEXT ((void *)-1L)    /* RTLD_NEXT */
#define DEFAULT ((void *)0)   /* RTLD_DEFAULT */
#define ENOMEM 12

/* In libdl before glibc 2.34, which not every program has. */
extern void *dlsym(void *, const char *) __attribute__((weak));
extern int *__errno_location(void) __attribute__((weak));
extern void *__libc_malloc(size_t) __attribute__((weak));
extern void *__libc_calloc(size_t, size_t) __attribute__((weak));
extern void *__libc_realloc(void *, size_t) __attribute__((weak));
extern void *__libc_memalign(size_t, size_t) __attribute__((weak));
extern void __libc_free(void *) __attribute__((weak));
extern void abort(void) __attribute__((noreturn));

/* Memory for allocations that dlsym(3) makes while the next functions are looked up. */
static char early[16384] __attribute__((aligned(16)));
static size_t early_used;

static int is_early(const void *address) {
    return (const char *)address >= early && (const char *)address < early + sizeof early;
}

static void *early_malloc(size_t bytes) {
    size_t rounded = (bytes + 31) & ~(size_t)15;
    size_t at = rounded < bytes ? sizeof early : __atomic_fetch_add(&early_used, rounded, __ATOMIC_RELAXED);
    if (at > sizeof early || rounded > sizeof early - at)
        return 0;
    *(size_t *)(early + at) = bytes;
    return early + at + 16;
}

static void *early_calloc(size_t count, size_t bytes) {
    size_t product;
    return __builtin_mul_overflow(count, bytes, &product) ? 0 : early_malloc(product);
}

static void *first_malloc(size_t);
static void *first_calloc(size_t, size_t);
static void *first_realloc(void *, size_t);
static void *first_aligned(size_t, size_t);
static void *first_memalign(size_t, size_t);
static int first_posix_memalign(void **, size_t, size_t);
static void first_free(void *);

static void *(*next_malloc)(size_t) = first_malloc;
static void *(*next_calloc)(size_t, size_t) = first_calloc;
static void *(*next_realloc)(void *, size_t) = first_realloc;
static void *(*next_aligned_alloc)(size_t, size_t) = first_aligned;
static void *(*next_memalign)(size_t, size_t) = first_memalign;
static int (*next_posix_memalign)(void **, size_t, size_t) = first_posix_memalign;
static void (*next_free)(void *) = first_free;

static void *next(const char *name, void *otherwise) {
    void *found = dlsym ? dlsym(NEXT, name) : 0;
    return found ? found : otherwise;
}

static void look_up(void) {
    static int state;
    if (__atomic_exchange_n(&state, 1, __ATOMIC_ACQUIRE))
        return;
    void *free_ = next("free", __libc_free), *malloc_ = next("malloc", __libc_malloc);
    void *calloc_ = next("calloc", __libc_calloc), *realloc_ = next("realloc", __libc_realloc);
    void *memalign_ = next("memalign", __libc_memalign);
    void *aligned_ = next("aligned_alloc", memalign_), *posix_ = next("posix_memalign", 0);
    if (!malloc_ || !calloc_ || !realloc_ || !free_)
        abort();
    next_free = free_;
    next_realloc = realloc_;
    next_memalign = memalign_ ? memalign_ : aligned_;
    next_aligned_alloc = aligned_;
    next_posix_memalign = posix_;
    next_calloc = calloc_;
    __atomic_store_n(&next_malloc, malloc_, __ATOMIC_RELEASE);
}

/* The first call of each function. It gets early memory only within dlsym(3), and from a second
 * thread that starts before the lookup ends. */
static void *first_malloc(size_t bytes) {
    look_up();
    return next_malloc == first_malloc ? early_malloc(bytes) : next_malloc(bytes);
}

static void *first_calloc(size_t count, size_t bytes) {
    look_up();
    return next_calloc == first_calloc ? early_calloc(count, bytes) : next_calloc(count, bytes);
}

static void *first_realloc(void *old, size_t bytes) {
    look_up();
    return next_realloc == first_realloc ? 0 : next_realloc(old, bytes);
}

static void *first_aligned(size_t alignment, size_t bytes) {
    look_up();
    return next_aligned_alloc == first_aligned ? 0 : next_aligned_alloc(alignment, bytes);
}

static void *first_memalign(size_t alignment, size_t bytes) {
    look_up();
    return next_memalign == first_memalign ? 0 : next_memalign(alignment, bytes);
}

static int first_posix_memalign(void **result, size_t alignment, size_t bytes) {
    look_up();
    return next_posix_memalign == first_posix_memalign || !next_posix_memalign
               ? ENOMEM
               : next_posix_memalign(result, alignment, bytes);
}

static void first_free(void *address) {
    look_up();
    if (next_free != first_free)
        next_free(address);
}

/* Counts an allocation, unless the next function called one of these and it has counted: then the
 * distance changed. So do musl's calloc and posix_memalign. */
static inline void count_once(int64_t before, void *address, size_t bytes) {
    if (bytes_left == before)
        count(address, bytes);
}

EXPORT void *malloc(size_t bytes) {
    void *address = next_malloc(bytes);
    count(address, bytes);
    return address;
}

/* The same function under a name that nobody can interpose. */
extern void *our_malloc(size_t) __attribute__((alias("malloc"), visibility("hidden")));

EXPORT void *calloc(size_t number, size_t bytes) {
    int64_t before = bytes_left;
    void *address = next_calloc(number, bytes);
    if (LIKELY(address != 0))
        count_once(before, address, number * bytes);
    return address;
}

EXPORT void free(void *address) {
    if (UNLIKELY(is_early(address)))
        return;
    release(address);
    next_free(address);
}

/* Counts as the release of the old block, and an allocation of the new size. */
EXPORT void *realloc(void *old, size_t bytes) {
    if (UNLIKELY(is_early(old))) {
        void *moved = our_malloc(bytes);
        size_t before = ((size_t *)old)[-2];
        for (size_t i = 0; moved && i < before && i < bytes; i++)
            ((volatile char *)moved)[i] = ((char *)old)[i];
        return moved;
    }
    /* Another thread may get the old address before this call returns. */
    uint64_t number = UNLIKELY(may_be_sampled(old)) ? forget(old) : 0;
    int64_t before = bytes_left;
    void *address = next_realloc(old, bytes);
    if (UNLIKELY(number != 0)) {
        if (address || !bytes)
            report_freed(number);
        else
            put_back(old, number);
    }
    if (LIKELY(address != 0))
        count_once(before, address, bytes);
    return address;
}

EXPORT void *reallocarray(void *old, size_t number, size_t bytes) {
    size_t product;
    if (__builtin_mul_overflow(number, bytes, &product)) {
        if (__errno_location)
            *__errno_location() = ENOMEM;
        return 0;
    }
    void *address = realloc(old, product);
    /* Not a tail call: its frame names the caller. */
    __asm__ volatile("" : "+r"(address));
    return address;
}

EXPORT void *aligned_alloc(size_t alignment, size_t bytes) {
    int64_t before = bytes_left;
    void *address = next_aligned_alloc(alignment, bytes);
    count_once(before, address, bytes);
    return address;
}

EXPORT void *memalign(size_t alignment, size_t bytes) {
    int64_t before = bytes_left;
    void *address = next_memalign(alignment, bytes);
    count_once(before, address, bytes);
    return address;
}

EXPORT int posix_memalign(void **result, size_t alignment, size_t bytes) {
    int64_t before = bytes_left;
    int error = next_posix_memalign(result, alignment, bytes);
    if (LIKELY(error == 0))
        count_once(before, *result, bytes);
    return error;
}

/* Obsolete, so a program may lack a library that has it. */
#define PAGES(symbol)                                                                              \
    EXPORT void *symbol(size_t bytes) {                                                            \
        static void *(*next_pages)(size_t);                                                        \
        if (UNLIKELY(!next_pages))                                                                 \
            next_pages = next(#symbol, 0);                                                         \
        int64_t before = bytes_left;                                                               \
        void *address = next_pages ? next_pages(bytes) : 0;                                        \
        count_once(before, address, bytes);                                                        \
        return address;                                                                            \
    }
PAGES(valloc)
PAGES(pvalloc)

/* C23 */
EXPORT void free_sized(void *address, size_t bytes) {
    (void)bytes;
    free(address);
}

EXPORT void free_aligned_sized(void *address, size_t alignment, size_t bytes) {
    (void)alignment;
    (void)bytes;
    free(address);
}

/* Operators of C++. Those of libstdc++ and libc++ call malloc; those of other allocators do not. */
#define NEW(symbol, parameters, arguments)                                                         \
    EXPORT void *symbol parameters {                                                               \
        static void *(*next_new)parameters;                                                        \
        if (UNLIKELY(!next_new))                                                                   \
            next_new = next(#symbol, fallback_##symbol);                                           \
        int64_t before = bytes_left;                                                               \
        void *address = next_new arguments;                                                        \
        count_once(before, address, bytes);                                                        \
        return address;                                                                            \
    }

#define DELETE(symbol, parameters, arguments)                                                      \
    EXPORT void symbol parameters {                                                                \
        static void(*next_delete) parameters;                                                      \
        if (UNLIKELY(!next_delete))                                                                \
            next_delete = next(#symbol, fallback_##symbol);                                        \
        release(address);                                                                          \
        next_delete arguments;                                                                     \
    }

/* A C++ library that dlopen(3) keeps to itself is not among the next ones. */
#define PLAIN(symbol, parameters, call)                                                            \
    static void *fallback_##symbol parameters {                                                    \
        void *address = call;                                                                      \
        if (!address)                                                                              \
            abort();                                                                               \
        return address;                                                                            \
    }

#define FREE(symbol, parameters)                                                                   \
    static void fallback_##symbol parameters {                                                     \
        free(address);                                                                             \
    }

#define WITHOUT_ERROR(symbol, parameters, call)                                                    \
    static void *fallback_##symbol parameters {                                                    \
        return call;                                                                               \
    }

/* Argument of type std::nothrow_t: its address. */
typedef const void *Nothrow;

#define OPERATORS_NEW(OP)                                                                          \
    OP(_Znwm, (size_t bytes), (bytes), PLAIN, our_malloc(bytes))                                   \
    OP(_Znam, (size_t bytes), (bytes), PLAIN, our_malloc(bytes))                                   \
    OP(_ZnwmRKSt9nothrow_t, (size_t bytes, Nothrow n), (bytes, n), WITHOUT_ERROR,                  \
       our_malloc(bytes))                                                                          \
    OP(_ZnamRKSt9nothrow_t, (size_t bytes, Nothrow n), (bytes, n), WITHOUT_ERROR,                  \
       our_malloc(bytes))                                                                          \
    OP(_ZnwmSt11align_val_t, (size_t bytes, size_t a), (bytes, a), PLAIN, memalign(a, bytes))      \
    OP(_ZnamSt11align_val_t, (size_t bytes, size_t a), (bytes, a), PLAIN, memalign(a, bytes))      \
    OP(_ZnwmSt11align_val_tRKSt9nothrow_t, (size_t bytes, size_t a, Nothrow n), (bytes, a, n),     \
       WITHOUT_ERROR, memalign(a, bytes))                                                          \
    OP(_ZnamSt11align_val_tRKSt9nothrow_t, (size_t bytes, size_t a, Nothrow n), (bytes, a, n),     \
       WITHOUT_ERROR, memalign(a, bytes))

#define DEFINE_NEW(symbol, parameters, arguments, kind, call)                                      \
    kind(symbol, parameters, call) NEW(symbol, parameters, arguments)
OPERATORS_NEW(DEFINE_NEW)

#define OPERATORS_DELETE(OP)                                                                       \
    OP(_ZdlPv, (void *address), (address))                                                         \
    OP(_ZdaPv, (void *address), (address))                                                         \
    OP(_ZdlPvm, (void *address, size_t s), (address, s))                                           \
    OP(_ZdaPvm, (void *address, size_t s), (address, s))                                           \
    OP(_ZdlPvRKSt9nothrow_t, (void *address, Nothrow n), (address, n))                             \
    OP(_ZdaPvRKSt9nothrow_t, (void *address, Nothrow n), (address, n))                             \
    OP(_ZdlPvSt11align_val_t, (void *address, size_t a), (address, a))                             \
    OP(_ZdaPvSt11align_val_t, (void *address, size_t a), (address, a))                             \
    OP(_ZdlPvSt11align_val_tRKSt9nothrow_t, (void *address, size_t a, Nothrow n), (address, a, n)) \
    OP(_ZdaPvSt11align_val_tRKSt9nothrow_t, (void *address, size_t a, Nothrow n), (address, a, n)) \
    OP(_ZdlPvmSt11align_val_t, (void *address, size_t s, size_t a), (address, s, a))               \
    OP(_ZdaPvmSt11align_val_t, (void *address, size_t s, size_t a), (address, s, a))

#define DEFINE_DELETE(symbol, parameters, arguments)                                               \
    FREE(symbol, parameters) DELETE(symbol, parameters, arguments)
OPERATORS_DELETE(DEFINE_DELETE)

/* Returns OWN_MALLOC if the program's calls of malloc do not come here. Addresses prove nothing: in
 * a program with a fixed address, a function's address is that of its jump. */
static int has_own_malloc(void) {
    void *(*seen_malloc)(size_t) = dlsym ? dlsym(DEFAULT, "malloc") : 0;
    void (*seen_free)(void *) = dlsym ? dlsym(DEFAULT, "free") : 0;
    if (!seen_malloc || !seen_free)
        return 0;
    int64_t before = bytes_left;
    void *address = seen_malloc(1);
    int is_seen = bytes_left != before;
    seen_free(address);
    return is_seen ? 0 : OWN_MALLOC;
}

static __attribute__((constructor)) void load(void) {
    look_up();
    if (is_recorded())
        report_loaded(has_own_malloc());
}
