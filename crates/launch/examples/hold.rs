//! Holds a command before its exec, shows that the process exists, and releases it.
//!
//! ```sh
//! cargo run -p rprof-launch --example hold -- sh -c 'echo hello; exit 7'
//! ```

use rprof_launch::procfs::Procfs;
use rprof_launch::{Launcher, MapsReader};
use std::error::Error;

#[allow(clippy::print_stdout)]
fn main() -> Result<(), Box<dyn Error>> {
    let mut words = std::env::args_os().skip(1);
    let program = words.next().unwrap_or_else(|| "true".into());
    let mut child = Launcher::new(program).args(words).spawn()?;
    let pid = u32::try_from(child.pid())?;

    // A caller would open events for the pid here.
    let proc = Procfs::default();
    let parent = proc.stat(pid).map(|stat| stat.parent);
    println!("process {pid} of parent {parent:?} is held");

    child.release()?;
    let mut mappings = Vec::new();
    if MapsReader::new().read(pid, &mut mappings).is_ok() {
        println!("{} executable mappings", mappings.len());
    }
    println!("{}", child.wait()?);
    Ok(())
}
