//! Loads its own mappings and resolves the address of one of its functions.
//!
//! ```sh
//! cargo run -p rprof-processes --example timeline
//! ```
#![allow(clippy::print_stdout, reason = "an example shows its result")]

use std::error::Error;
use std::fs;
use std::process;

use rprof_processes::{ImageIdentity, NewMapping, Pid, ProcessMapBuilder};

/// Parses a line of `/proc/PID/maps` (proc_pid_maps(5)): `start-end perms offset major:minor inode
/// path`.
fn parse(line: &str) -> Option<NewMapping<'_>> {
    let mut rest = line;
    let mut field = || {
        let (field, others) = rest.split_once(' ')?;
        rest = others.trim_start_matches(' ');
        Some(field)
    };
    let (range, perms, offset, device) = (field()?, field()?, field()?, field()?);
    let inode = field().unwrap_or("0");
    let hex = |digits: &str| u64::from_str_radix(digits, 16).ok();
    let (start, end) = range.split_once('-')?;
    let (major, minor) = device.split_once(':')?;
    Some(NewMapping {
        start: hex(start)?,
        len: hex(end)?.checked_sub(hex(start)?)?,
        file_offset: hex(offset)?,
        path: rest.as_bytes(),
        identity: ImageIdentity::Inode {
            major: u32::from_str_radix(major, 16).ok()?,
            minor: u32::from_str_radix(minor, 16).ok()?,
            inode: inode.parse().ok()?,
            generation: 0,
        },
        executable: perms.contains('x'),
    })
}

fn main() -> Result<(), Box<dyn Error>> {
    let pid = Pid(i32::try_from(process::id())?);
    let maps = fs::read_to_string("/proc/self/maps")?;

    // Existing mappings are valid from time 0.
    let mut builder = ProcessMapBuilder::new();
    builder.handle_rename(0, pid, pid.main_thread(), b"timeline");
    for new in maps.lines().filter_map(parse) {
        builder.handle_mmap(0, pid, &new);
    }
    let timeline = builder.finish();

    let space = timeline.space(pid, 0).ok_or("no such process")?;
    for mapping in timeline.view(space, 0).mappings() {
        let image = timeline.image(mapping.image).ok_or("no such image")?;
        println!(
            "{:>14x}-{:<14x} {:<10} {}",
            mapping.start,
            mapping.end,
            format!("{:?}", image.kind),
            image.path.escape_ascii(),
        );
    }

    let address = main as fn() -> _ as usize as u64;
    let found = timeline.resolve(pid, 1_000, address).ok_or("not mapped")?;
    let image = timeline.image(found.image).ok_or("no such image")?;
    println!(
        "\nmain() is at {address:#x}: {} at offset {:#x}",
        image.path.escape_ascii(),
        found.offset_in_file,
    );
    Ok(())
}
