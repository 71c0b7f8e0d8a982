//! The program that `rprof demo` records: two threads with known shares of time.
//!
//! Functions work until the thread's CPU clock reaches their share, on any machine.

use std::hint::black_box;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// Functions, and their shares in percent.
pub(crate) const SHARES: [(&str, u64); 4] = [
    ("hash_blocks", 40),
    ("sort_numbers", 30),
    ("parse_text", 20),
    ("walk_list", 10),
];

/// CPU time of one round.
const ROUND: Duration = Duration::from_millis(20);

/// Runs two threads for `seconds` of CPU time each.
pub(crate) fn run(seconds: f64) {
    let threads = ["demo-left", "demo-right"].map(|name| {
        std::thread::Builder::new()
            .name(name.into())
            .spawn(move || serve(Duration::from_secs_f64(seconds)))
    });
    for thread in threads.into_iter().flatten() {
        // Reported already.
        thread.join().ok();
    }
}

fn cpu_time() -> Duration {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
}

#[inline(never)]
fn serve(budget: Duration) {
    let mut now = cpu_time();
    let end = now + budget;
    while now < end {
        // Each deadline counts from the previous one, so delays do not add up.
        now = read_request(now);
        now = render_reply(now);
    }
}

#[inline(never)]
fn read_request(from: Duration) -> Duration {
    let next = from + share(2);
    parse_text(next);
    let last = next + share(3);
    walk_list(last);
    black_box(last)
}

#[inline(never)]
fn render_reply(from: Duration) -> Duration {
    let next = from + share(0);
    hash_blocks(next);
    let last = next + share(1);
    sort_numbers(last);
    black_box(last)
}

fn share(function: usize) -> Duration {
    ROUND * SHARES[function].1 as u32 / 100
}

#[inline(never)]
fn hash_blocks(until: Duration) {
    let mut hash = 0xcbf2_9ce4_8422_2325u64;
    while cpu_time() < until {
        for byte in 0..50_000u64 {
            hash = (hash ^ black_box(byte & 0xff)).wrapping_mul(0x0100_0000_01b3);
        }
    }
    black_box(hash);
}

#[inline(never)]
fn sort_numbers(until: Duration) {
    let mut numbers = [0u32; 256];
    let mut seed = 12345u32;
    while cpu_time() < until {
        for n in &mut numbers {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            *n = seed >> 8;
        }
        for i in 1..numbers.len() {
            let mut at = i;
            while at > 0 && numbers[at - 1] > numbers[at] {
                numbers.swap(at - 1, at);
                at -= 1;
            }
        }
        black_box(&numbers);
    }
}

#[inline(never)]
fn parse_text(until: Duration) {
    let text = b"GET /index.html?page=1234&size=99 HTTP/1.1 Accept: text/html Length: 4711 ";
    let mut sum = 0u64;
    while cpu_time() < until {
        for _ in 0..500 {
            let mut number = 0u64;
            for byte in black_box(text) {
                match byte {
                    b'0'..=b'9' => number = number * 10 + u64::from(byte - b'0'),
                    _ => {
                        sum = sum.wrapping_add(number);
                        number = 0;
                    }
                }
            }
        }
    }
    black_box(sum);
}

#[inline(never)]
fn walk_list(until: Duration) {
    // 7 is coprime to 4096, so the walk visits all.
    let next: Vec<u16> = (0..4096u16).map(|i| (i + 7) % 4096).collect();
    let mut at = 0u16;
    while cpu_time() < until {
        for _ in 0..20_000 {
            at = next[usize::from(black_box(at)) & 4095];
        }
    }
    black_box(at);
}
