//! [`Hit`]: message of the library, by a store to the watched page.

/// Registers of a sample that make a [`Hit`], as a mask for `sample_regs_user`.
#[cfg(not(target_arch = "aarch64"))]
pub const REGISTERS: u64 = 1 << DESTINATION | 1 << SOURCE | 1 << DATA;

/// Registers of a sample that make a [`Hit`], as a mask for `sample_regs_user`.
#[cfg(target_arch = "aarch64")]
pub const REGISTERS: u64 = 0b111;

/// Numbers of rdi, rsi and rdx in asm/perf_regs.h: the first arguments of a function.
#[cfg(not(target_arch = "aarch64"))]
const ARGUMENTS: [u32; 3] = [DESTINATION, SOURCE, DATA];
#[cfg(not(target_arch = "aarch64"))]
const DATA: u32 = 3;
#[cfg(not(target_arch = "aarch64"))]
const SOURCE: u32 = 4;
#[cfg(not(target_arch = "aarch64"))]
const DESTINATION: u32 = 5;

/// Numbers of x0, x1 and x2 in asm/perf_regs.h.
#[cfg(target_arch = "aarch64")]
const ARGUMENTS: [u32; 3] = [0, 1, 2];

/// Store to the watched page. Its values come from the memory of the target: they may be anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Hit {
    /// The library was loaded by a new program.
    Loaded {
        /// Mean distance of two points, in bytes.
        mean: u64,
        /// True if the program brings its own `malloc`, whose calls the library misses.
        own_malloc: bool,
    },
    /// An allocation was sampled.
    Allocated {
        /// Number of the sample in its process, and in processes that it forks.
        number: u64,
        /// Requested bytes.
        bytes: u64,
        /// False if the library's table is full: it will not report the release.
        is_followed: bool,
    },
    /// A sampled allocation was released.
    Freed {
        /// Number of the sample.
        number: u64,
    },
}

impl Hit {
    /// Decodes the registers of a sample; `register` returns the one with a number of
    /// asm/perf_regs.h. `None` for a store of another program.
    ///
    /// ```
    /// use rprof_preload::Hit;
    ///
    /// assert_eq!(Hit::decode(|_| Some(3)), Some(Hit::Freed { number: 3 }));
    /// assert_eq!(Hit::decode(|_| Some(99)), None);
    /// ```
    pub fn decode(register: impl Fn(u32) -> Option<u64>) -> Option<Hit> {
        let [kind, number, value] = ARGUMENTS.map(register);
        let (number, value) = (number?, value?);
        // The kinds of library/sampling.h.
        Some(match kind? {
            1 => Hit::Loaded {
                mean: number,
                own_malloc: value & 1 != 0,
            },
            kind @ (2 | 4) => Hit::Allocated {
                number,
                bytes: value,
                is_followed: kind == 2,
            },
            3 => Hit::Freed { number },
            _ => return None,
        })
    }
}
