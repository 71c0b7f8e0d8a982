#include "sampling.h"

#if !defined(__x86_64__) && !defined(__aarch64__)
#error "unsupported architecture: add its system call and its store to the watched page"
#endif

HIDDEN __thread int64_t bytes_left;
static __thread uint64_t random_state;
static __thread int is_inside;

HIDDEN uint8_t filter[FILTER];

/* Sampled addresses, and their numbers. A slot is free (0), reserved (1), or an address. Pages of
 * the table take memory once they are used. */
enum { SLOTS = 1 << 20, PROBES = 32 };
static uintptr_t addresses[SLOTS];
static uint64_t numbers[SLOTS];
static uint64_t last_number;

/* Settings. `watched` is 0 without a recorder. */
static int is_prepared;
static uintptr_t watched;
static uint64_t mean;

extern char **environ __attribute__((weak));

static long map_page(uintptr_t address) {
    /* PROT_READ | PROT_WRITE; MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE */
    enum { BYTES = 4096, PROTECTION = 3, FLAGS = 0x100022 };
#if defined(__x86_64__)
    register long flags __asm__("r10") = FLAGS;
    register long file __asm__("r8") = -1;
    register long offset __asm__("r9") = 0;
    long result = 9; /* mmap */
    __asm__ volatile("syscall"
                     : "+a"(result)
                     : "D"(address), "S"((long)BYTES), "d"((long)PROTECTION), "r"(flags), "r"(file),
                       "r"(offset)
                     : "rcx", "r11", "memory");
    return result;
#else
    register long number __asm__("x8") = 222; /* mmap */
    register long result __asm__("x0") = (long)address;
    register long bytes __asm__("x1") = BYTES;
    register long protection __asm__("x2") = PROTECTION;
    register long flags __asm__("x3") = FLAGS;
    register long file __asm__("x4") = -1;
    register long offset __asm__("x5") = 0;
    __asm__ volatile("svc #0"
                     : "+r"(result)
                     : "r"(number), "r"(bytes), "r"(protection), "r"(flags), "r"(file), "r"(offset)
                     : "memory");
    return result;
#endif
}

/* Stores to the watched page, with the arguments in the first registers of the calling convention:
 * the recorder reads them there. */
static __attribute__((noinline)) void hit(uint64_t kind, uint64_t number, uint64_t value) {
#if defined(__x86_64__)
    register uint64_t first __asm__("rdi") = kind;
    register uint64_t second __asm__("rsi") = number;
    register uint64_t third __asm__("rdx") = value;
    __asm__ volatile("movq %0, (%3)"
                     :
                     : "r"(first), "r"(second), "r"(third), "r"(watched)
                     : "memory");
#else
    register uint64_t first __asm__("x0") = kind;
    register uint64_t second __asm__("x1") = number;
    register uint64_t third __asm__("x2") = value;
    __asm__ volatile("str %0, [%3]"
                     :
                     : "r"(first), "r"(second), "r"(third), "r"(watched)
                     : "memory");
#endif
}

static uint64_t ticks(void) {
    uint64_t value;
#if defined(__x86_64__)
    uint32_t low, high;
    __asm__ volatile("rdtsc" : "=a"(low), "=d"(high));
    value = (uint64_t)high << 32 | low;
#else
    __asm__ volatile("mrs %0, cntvct_el0" : "=r"(value));
#endif
    return value;
}

/* SplitMix64. */
static uint64_t random_bits(void) {
    if (!random_state)
        random_state = ticks() ^ hash_of(&random_state);
    /* After fork(2), parent and child go different ways. */
    uint64_t bits = random_state += 0x9e3779b97f4a7c15u ^ ticks() << 1;
    bits = (bits ^ bits >> 30) * 0xbf58476d1ce4e5b9u;
    bits = (bits ^ bits >> 27) * 0x94d049bb133111ebu;
    return bits ^ bits >> 31;
}

/* -ln of a random number in (0, 1], which is exponential with the mean 1. The logarithm of the
 * mantissa m is 2 atanh((m - 1) / (m + 1)), as a series: 13 digits are right. */
static double exponential(void) {
    uint64_t bits = (random_bits() >> 11) + 1;
    int exponent = 63 - __builtin_clzll(bits);
    double m = (double)bits / (double)((uint64_t)1 << exponent);
    double z = (m - 1) / (m + 1), square = z * z, sum = 0;
    for (int odd = 27; odd > 0; odd -= 2)
        sum = sum * square + 1.0 / odd;
    return (53 - exponent) * 0.69314718055994530942 - 2 * z * sum;
}

/* Bytes before the next point, rounded down: the point is in an allocation with more bytes. */
static int64_t distance(void) {
    double bytes = exponential() * (double)mean;
    return bytes < 1e15 ? (int64_t)bytes : (int64_t)1e15;
}

static int insert(const void *address, uint64_t number) {
    uint64_t hash = hash_of(address);
    for (uint64_t probe = 0; probe < PROBES; probe++) {
        uint64_t slot = ((hash >> 20) + probe) % SLOTS;
        uintptr_t unused = 0;
        if (__atomic_load_n(&addresses[slot], __ATOMIC_RELAXED) ||
            !__atomic_compare_exchange_n(&addresses[slot], &unused, 1, 0, __ATOMIC_ACQUIRE,
                                         __ATOMIC_RELAXED))
            continue;
        numbers[slot] = number;
        /* A counter that is full stays so. */
        uint8_t *counter = &filter[hash >> 48];
        uint8_t old = __atomic_load_n(counter, __ATOMIC_RELAXED);
        while (old != UINT8_MAX && !__atomic_compare_exchange_n(counter, &old, old + 1, 1,
                                                                __ATOMIC_RELAXED, __ATOMIC_RELAXED))
            ;
        __atomic_store_n(&addresses[slot], (uintptr_t)address, __ATOMIC_RELEASE);
        return 1;
    }
    return 0;
}

uint64_t forget(const void *address) {
    if ((uintptr_t)address <= 1)
        return 0;
    uint64_t hash = hash_of(address);
    for (uint64_t probe = 0; probe < PROBES; probe++) {
        uint64_t slot = ((hash >> 20) + probe) % SLOTS;
        if (__atomic_load_n(&addresses[slot], __ATOMIC_ACQUIRE) != (uintptr_t)address)
            continue;
        uint64_t number = numbers[slot];
        __atomic_store_n(&addresses[slot], 0, __ATOMIC_RELEASE);
        uint8_t *counter = &filter[hash >> 48];
        uint8_t old = __atomic_load_n(counter, __ATOMIC_RELAXED);
        while (old != UINT8_MAX && old != 0 &&
               !__atomic_compare_exchange_n(counter, &old, old - 1, 1, __ATOMIC_RELAXED,
                                            __ATOMIC_RELAXED))
            ;
        return number;
    }
    return 0;
}

void put_back(const void *address, uint64_t number) {
    insert(address, number);
}

void report_freed(uint64_t number) {
    if (watched)
        hit(HIT_FREED, number, 0);
}

static uint64_t parse(const char **text, unsigned base) {
    uint64_t value = 0;
    for (;; ++*text) {
        char c = **text;
        unsigned digit = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : 99;
        if (digit >= base)
            return value;
        value = value * base + digit;
    }
}

/* Reads the settings `RPROF_ALLOC=PAGE,MEAN` and maps the watched page. Constructors of other
 * libraries allocate before that of this one runs, so the first sample does this. */
static void prepare(void) {
    static const char NAME[] = "RPROF_ALLOC=";
    if (!&environ || !environ || __atomic_exchange_n(&is_prepared, 1, __ATOMIC_ACQUIRE))
        return;
    for (char **entry = environ; *entry; entry++) {
        const char *text = *entry, *name = NAME;
        while (*name && *text == *name)
            text++, name++;
        if (*name)
            continue;
        uintptr_t page = parse(&text, 16);
        uint64_t bytes = *text == ',' ? (++text, parse(&text, 10)) : 0;
        if (page && page % 4096 == 0 && bytes && map_page(page) == (long)page) {
            mean = bytes;
            __atomic_store_n(&watched, page, __ATOMIC_RELEASE);
        }
        return;
    }
}

void sample(void *address, size_t bytes) {
    if (!address || is_inside) {
        bytes_left += (int64_t)bytes;
        return;
    }
    if (!is_prepared)
        prepare();
    if (!__atomic_load_n(&watched, __ATOMIC_ACQUIRE)) {
        /* Before `environ` is set, the next call tries again. */
        bytes_left = is_prepared ? INT64_MAX : 0;
        return;
    }
    is_inside = 1;
    int64_t first = random_state ? -1 : distance() - (int64_t)bytes;
    if (first >= 0) {
        /* The thread's first allocation, and the point is behind it. */
        bytes_left = first;
    } else {
        bytes_left = distance();
        uint64_t number = __atomic_add_fetch(&last_number, 1, __ATOMIC_RELAXED);
        hit(insert(address, number) ? HIT_ALLOCATED : HIT_UNFOLLOWED, number, bytes);
    }
    is_inside = 0;
}

int is_recorded(void) {
    if (!is_prepared)
        prepare();
    return watched != 0;
}

void report_loaded(int flags) {
    hit(HIT_LOADED, mean, (uint64_t)flags);
}
