//! Parses events as `perf record -e` does, and prints the attr of each.
//!
//! ```sh
//! cargo run -p rprof-events --example attr -- 'cycles:u,{page-faults,cs}:S,mem:0x1000/8:w'
//! ```

use rprof_events::{Event, EventError};
use rprof_records::Attr;

#[allow(clippy::print_stdout)]
fn main() -> Result<(), EventError> {
    let list = std::env::args().nth(1);
    for event in Event::parse_list(list.as_deref().unwrap_or("cycles:u"))? {
        let mut attr = Attr::default();
        event.apply(&mut attr);
        println!(
            "{event}: type {} config {:#x} config1 {:#x} config2 {:#x} {:?}",
            attr.kind.0, attr.config, attr.config1, attr.config2, attr.flags
        );
        for part in event.ignored_when_sampled() {
            println!("    {part}");
        }
    }
    Ok(())
}
