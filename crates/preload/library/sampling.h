/* Sampling of allocations by bytes, and the table of the sampled ones.
 *
 * Points lie on the stream of requested bytes, one in `mean` bytes on average, at exponential
 * distances. An allocation with a point is sampled. The recorder sees a sampled allocation, and its
 * release, as a store to the page that it watches with a breakpoint.
 *
 * The code runs inside malloc(3): it allocates nothing, takes no lock, and changes no errno. */

#ifndef RPROF_SAMPLING_H
#define RPROF_SAMPLING_H

#include <stddef.h>
#include <stdint.h>

#define LIKELY(x) __builtin_expect(!!(x), 1)
#define UNLIKELY(x) __builtin_expect(!!(x), 0)
#define HIDDEN __attribute__((visibility("hidden")))

/* Kinds of stores: the numbers in crates/allocations/src/hit.rs. */
enum { HIT_LOADED = 1, HIT_ALLOCATED = 2, HIT_FREED = 3, HIT_UNFOLLOWED = 4 };

/* Flag of HIT_LOADED: malloc of the program is not the one of this library. */
enum { OWN_MALLOC = 1 };

/* Bytes of this thread until the next point. New threads begin with 0, so their first allocation
 * draws the first distance. */
extern HIDDEN __thread int64_t bytes_left;

/* One counter for the sampled addresses of each hash: a release of any other address ends here. */
enum { FILTER = 1 << 16 };
extern HIDDEN uint8_t filter[FILTER];

static inline uint64_t hash_of(const void *address) {
    return (uint64_t)(uintptr_t)address * 0x9e3779b97f4a7c15u;
}

static inline int may_be_sampled(const void *address) {
    return __atomic_load_n(&filter[hash_of(address) >> 48], __ATOMIC_RELAXED) != 0;
}

/* Handles an allocation that used up the thread's distance. */
HIDDEN void sample(void *address, size_t bytes);

/* Removes a sampled address from the table. Returns its number, or 0. */
HIDDEN uint64_t forget(const void *address);

/* Puts back an address that `forget` returned: its release failed. */
HIDDEN void put_back(const void *address, uint64_t number);

/* Reports the release of a sampled allocation. */
HIDDEN void report_freed(uint64_t number);

/* Reads the settings. Returns false without a recorder. */
HIDDEN int is_recorded(void);

/* Reports that the library is loaded. */
HIDDEN void report_loaded(int flags);

/* Counts an allocation. */
static inline void count(void *address, size_t bytes) {
    bytes_left -= (int64_t)bytes;
    if (UNLIKELY(bytes_left < 0))
        sample(address, bytes);
}

/* Reports a release, if the allocation was sampled. */
static inline void release(const void *address) {
    if (UNLIKELY(may_be_sampled(address))) {
        uint64_t number = forget(address);
        if (number)
            report_freed(number);
    }
}

#endif
