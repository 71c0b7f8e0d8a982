//! Prints the field offsets of samples with a given `sample_type`:
//! `cargo run -p rprof-records --example layout -- 0x10127`

use rprof_records::{Attr, Endian, SampleLayout, SampleType};

#[allow(clippy::print_stdout, reason = "an example's output")]
fn main() {
    let given = std::env::args().nth(1);
    let bits = (given.as_deref().and_then(|s| s.strip_prefix("0x")))
        .and_then(|hex| u64::from_str_radix(hex, 16).ok())
        .unwrap_or(0x10127);
    let attr = Attr {
        sample_type: SampleType::from_bits_retain(bits),
        ..Attr::default()
    };
    let layout = SampleLayout::new(&attr, Endian::NATIVE);
    for (name, field) in attr.sample_type.iter_names() {
        match layout.fixed_offset(field) {
            Some(at) => println!("{at:>4}  {name}"),
            None => println!("   .  {name} (after the fixed fields)"),
        }
    }
}
