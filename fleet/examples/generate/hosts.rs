//! Synthetic hosts: services in two versions, where one function is slower in the later version.
//! Equal seeds give equal bytes.

use std::collections::BTreeMap;
use std::path::Path;

use rprof_fleet_table::rows::{
    FrameLine, FrameRow, HostRow, Identity, ImageRow, LocationRow, SampleRow, StackRow,
};
use rprof_fleet_table::{FleetTableError, Id, Tables, WINDOW_US, folder};
use rprof_testing::Random;

/// Services, assigned to hosts in turn.
pub const SERVICES: [&str; 5] = ["checkout", "search", "cart", "auth", "ads"];

/// Versions. Half of a service's hosts run each.
pub const VERSIONS: [&str; 2] = ["1.4", "1.5"];

pub const SLOWER_SERVICE: &str = "checkout";

pub const SLOWER_FUNCTION: &str = "checkout::f61";

/// Nanoseconds per sample, at 19 samples a second.
const PERIOD: i64 = 1_000_000_000 / 19;

/// Samples of a host per minute: one busy CPU.
const SAMPLES: usize = 19 * 60;

/// Functions of a service, without `main` and library functions.
const FUNCTIONS: usize = 120;

const STACKS: usize = 400;

/// Arguments of the generator.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Number of hosts.
    pub hosts: usize,
    /// Number of minutes, from the start of the hour.
    pub minutes: usize,
    /// Start of the hour in seconds.
    pub hour: i64,
    /// Random seed.
    pub seed: u64,
    /// Factor for the time of the slower function.
    pub slowdown: f64,
}

impl Default for Plan {
    fn default() -> Self {
        Plan {
            hosts: 10,
            minutes: 60,
            hour: 1_699_999_200,
            seed: 1,
            slowdown: 1.25,
        }
    }
}

/// A service in one version: its stacks and their weights.
struct Program {
    tables: Tables,
    stacks: Vec<(Id, f64)>,
}

/// Writes the files of all hosts to a folder. Returns the number of files.
///
/// # Errors
/// A file cannot be written.
pub fn write(folder: &Path, plan: &Plan) -> Result<usize, FleetTableError> {
    let mut programs = BTreeMap::new();
    let mut files = 0;
    for host in 0..plan.hosts {
        let service = SERVICES[host % SERVICES.len()];
        let version = (host / SERVICES.len()) % VERSIONS.len();
        let program = programs
            .entry((service, version))
            .or_insert_with(|| program(service, version, plan));
        let mut tables = of_host(host, service, VERSIONS[version], program, plan);
        for file in tables.files(&host_name(host), plan.hour)? {
            folder::put(folder, &file)?;
            files += 1;
        }
    }
    Ok(files)
}

fn host_name(host: usize) -> String {
    format!("host-{host:04}")
}

/// Returns a roughly log-normal number around 1, from twelve uniform numbers.
fn about_one(random: &mut Random, spread: f64) -> f64 {
    let sum: f64 = (0..12).map(|_| uniform(random)).sum();
    ((sum - 6.0) * spread).exp()
}

fn uniform(random: &mut Random) -> f64 {
    random.below(1 << 30) as f64 / (1u64 << 30) as f64
}

fn program(service: &str, version: usize, plan: &Plan) -> Program {
    // Both versions have the same stacks at different addresses.
    let mut random = Random::new(
        plan.seed ^ u64::from(service.as_bytes()[0]) ^ (u64::from(service.as_bytes()[1]) << 8),
    );
    let build_id = format!("{}{version:02}", Id::of_image(service));
    let libc = Id::of_image("libc").to_string();
    let mut made = Program {
        tables: Tables::default(),
        stacks: Vec::new(),
    };
    for (key, path, kind) in [
        (
            build_id.as_str(),
            format!("/opt/{service}/bin/{service}"),
            "file",
        ),
        (libc.as_str(), "/usr/lib/libc.so.6".to_owned(), "file"),
        (
            "[kernel.kallsyms]",
            "[kernel.kallsyms]".to_owned(),
            "kernel",
        ),
    ] {
        made.tables.images.push(ImageRow {
            image_id: Id::of_image(key),
            build_id: (kind == "file").then(|| key.to_owned()),
            path,
            kind,
            symbols: "edge",
        });
    }
    let mut known: BTreeMap<(String, u64), Id> = BTreeMap::new();
    for number in 0..STACKS {
        let mut calls = vec![("main".to_owned(), 0)];
        for _ in 0..3 + random.below(20) {
            calls.push((
                format!("{service}::f{}", random.below(FUNCTIONS as u64)),
                random.below(3),
            ));
        }
        match random.below(4) {
            0 => calls.push((
                ["malloc", "memcpy", "free"][random.below(3) as usize].to_owned(),
                0,
            )),
            1 => {
                calls.push(("entry_SYSCALL_64".to_owned(), 0));
                calls.push((
                    ["tcp_sendmsg", "ep_poll", "vfs_read"][random.below(3) as usize].to_owned(),
                    0,
                ));
            }
            _ => {}
        }
        // A few stacks take most of the time, as in real programs.
        let mut weight = 1.0 / (number as f64 + 4.0) * about_one(&mut random, 0.5);
        if version == 1
            && calls
                .last()
                .is_some_and(|(name, _)| service == SLOWER_SERVICE && name == SLOWER_FUNCTION)
        {
            weight *= plan.slowdown;
        }
        let ids: Vec<Id> = (calls.into_iter().rev())
            .map(|(name, place)| {
                location(&mut made.tables, &mut known, name, place, &build_id, &libc)
            })
            .collect();
        let stack_id = Id::of_stack(ids.iter().copied());
        if made.stacks.iter().any(|(id, _)| *id == stack_id) {
            continue;
        }
        made.tables.stacks.push(StackRow {
            stack_id,
            location_ids: ids,
        });
        made.stacks.push((stack_id, weight));
    }
    made
}

fn location(
    tables: &mut Tables,
    known: &mut BTreeMap<(String, u64), Id>,
    name: String,
    place: u64,
    build_id: &str,
    libc: &str,
) -> Id {
    let next = known.len() as u64;
    if let Some(id) = known.get(&(name.clone(), place)) {
        return *id;
    }
    let is_kernel =
        ["entry_SYSCALL_64", "tcp_sendmsg", "ep_poll", "vfs_read"].contains(&name.as_str());
    let is_libc = ["malloc", "memcpy", "free"].contains(&name.as_str());
    let (image, address) = match (is_kernel, is_libc) {
        (true, _) => ("[kernel.kallsyms]", None),
        // The libc has the same addresses in all programs.
        (_, true) => (
            libc,
            Some(0x1000 + name.bytes().map(u64::from).sum::<u64>() * 16),
        ),
        _ => (build_id, Some(0x1000 + next * 64)),
    };
    let location_id = match address {
        Some(address) => Id::of_address(image, address),
        None => Id::of_names(image, [name.as_str()]),
    };
    tables.locations.push(LocationRow {
        location_id,
        image_id: Id::of_image(image),
        address: address.map(u64::cast_signed),
    });
    let has_lines = !is_kernel && !is_libc;
    tables.frames.push(FrameRow {
        location_id,
        symbols_rank: if has_lines { 2 } else { 1 },
        lines: vec![FrameLine {
            function: Some(name.clone()),
            file: has_lines.then(|| "src/lib.rs".to_owned()),
            line: has_lines.then(|| 10 + place as i32),
            inlined: false,
        }],
    });
    known.insert((name, place), location_id);
    location_id
}

fn of_host(host: usize, service: &str, version: &str, program: &Program, plan: &Plan) -> Tables {
    let mut random = Random::new(
        plan.seed
            .wrapping_mul(0x9e37_79b9)
            .wrapping_add(host as u64),
    );
    let mut tables = program.tables.clone();
    // The weights differ a little between hosts.
    let mut sum = 0.0;
    let upto: Vec<f64> = (program.stacks.iter())
        .map(|(_, weight)| {
            sum += weight * about_one(&mut random, 0.15);
            sum
        })
        .collect();
    for minute in 0..plan.minutes {
        let window_start = (plan.hour + minute as i64 * 60) * 1_000_000;
        let mut counts = vec![0; upto.len()];
        for _ in 0..SAMPLES {
            let at = uniform(&mut random) * sum;
            let found = upto.partition_point(|upto| *upto <= at);
            counts[found.min(upto.len() - 1)] += 1;
        }
        for ((stack_id, _), count) in program
            .stacks
            .iter()
            .zip(counts)
            .filter(|(_, count)| *count > 0)
        {
            tables.samples.push(SampleRow {
                window_start,
                window_us: WINDOW_US,
                identity: Identity {
                    service: service.to_owned(),
                    version: Some(version.to_owned()),
                    ..Identity::default()
                },
                host: host_name(host),
                comm: service.to_owned(),
                thread: "worker-#".to_owned(),
                event: "cpu-clock".to_owned(),
                unit: "nanoseconds",
                period: PERIOD as f64,
                stack_id: *stack_id,
                samples: count,
                value: count * PERIOD,
                scale: 1.0,
            });
        }
    }
    tables.hosts.push(HostRow {
        window_start: plan.hour * 1_000_000,
        window_us: plan.minutes as i64 * WINDOW_US,
        host: host_name(host),
        samples: (plan.minutes * SAMPLES) as i64,
        complete: (plan.minutes * SAMPLES) as i64,
        lost: 0,
        throttled: 0,
        lost_windows: 0,
        rate_hz: 19.0,
        scale: 1.0,
        agent_version: "generated".to_owned(),
    });
    tables
}
