//! Libraries mapped from an archive, as Android does with APKs.

use crate::support::{Here, Language, generated, needs};

/// The function counts in its own frame.
const LIBRARY: &str = "
long in_archive(long n) {
    volatile long sum = 0;
    for (long i = 0; i < n; i++) sum += i;
    return sum;
}
";

/// `PROGRAM ARCHIVE OFFSET SECONDS`: calls the function at the archive's offset.
const PROGRAM: &str = "
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
static double cpu_seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}
int main(int argc, char **argv) {
    long offset = atol(argv[2]), page = offset / 65536 * 65536;
    int fd = open(argv[1], O_RDONLY);
    char *at = mmap(0, 65536, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, page);
    if (at == MAP_FAILED || argc < 4) return 9;
    long (*function)(long) = (long (*)(long))(void *)(at + (offset - page));
    while (cpu_seconds() < atof(argv[3])) function(100000);
    return 0;
}
";

/// The entry is uncompressed, and aligned to 64 KiB.
fn archive(entry: &[u8]) -> Vec<u8> {
    const ALIGNED: usize = 65_536;
    let name = b"lib/libmade.so";
    let size = (entry.len() as u32).to_le_bytes();
    let padding = ALIGNED - 30 - name.len();
    let half = |value: usize| (value as u16).to_le_bytes();
    // Version, flags, method, time, checksum, sizes, lengths of the name and of the extra field.
    let fixed = |extra: usize| {
        let head = [&[20, 0, 0, 0, 0, 0][..], &[0; 8], &size, &size];
        [&head.concat()[..], &half(name.len()), &half(extra)].concat()
    };
    let local = [&b"PK\x03\x04"[..], &fixed(padding), name, &vec![0; padding]].concat();
    assert_eq!(local.len(), ALIGNED);
    let directory = [&b"PK\x01\x02"[..], &[20, 0], &fixed(0), &[0; 14], name].concat();
    let at = ((ALIGNED + entry.len()) as u32).to_le_bytes();
    let len = (directory.len() as u32).to_le_bytes();
    let end = [
        &b"PK\x05\x06"[..],
        &[0, 0, 0, 0, 1, 0, 1, 0],
        &len,
        &at,
        &[0, 0],
    ]
    .concat();
    [local, entry.to_vec(), directory, end].concat()
}

#[test]
fn code_mapped_from_an_archive_is_named() {
    needs!(PerfEvents);
    let here = Here::new();
    let flags = [
        "-O1",
        "-shared",
        "-nostdlib",
        "-fPIC",
        "-fno-omit-frame-pointer",
    ];
    let library = generated("made", LIBRARY, Language::C, &flags);
    let program = generated(
        "mapper",
        PROGRAM,
        Language::C,
        &["-O1", "-fno-omit-frame-pointer"],
    );
    here.command("objcopy")
        .words("-O binary --only-section=.text")
        .arg(&library)
        .arg(here.path("text"))
        .ok();
    let library = std::fs::read(library).unwrap();
    let text = std::fs::read(here.path("text")).unwrap();
    let at = library.windows(text.len()).position(|part| part == text);
    let whole = archive(&library);
    let offset = 65_536 + at.expect("the code is in the library");
    assert!(whole[offset..].starts_with(&text));
    std::fs::write(here.path("base.apk"), whole).unwrap();
    for options in ["", "-g"] {
        // The kernel's share depends on the machine.
        let record = here.rprof("record -q -F 999 -e cpu-clock:u").words(options);
        let record = record.arg("--").arg(&program).arg(here.path("base.apk"));
        record.words(&format!("{offset} 0.3")).ok();
        let report = here.report("");
        let share = report.only().self_share("in_archive");
        assert!(share > 0.8, "{share} with {options:?}");
        if options == "-g" {
            let main = report.only().total_share("main");
            assert!(main > 0.9, "{main} below main");
        }
    }
}
