//! [`Topology`]: cores, sockets and nodes of CPUs, from sysfs.

use std::fs;
use std::path::Path;

/// Folder of CPUs in sysfs (`Documentation/admin-guide/cputopology.rst`).
const CPUS: &str = "/sys/devices/system/cpu";

/// Position of a CPU in the machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CpuPlace {
    /// CPU number of the kernel, from 0.
    pub cpu: u32,
    /// Socket number (`physical_package_id`).
    pub socket: u32,
    /// Core number within its socket. Hardware threads share it.
    pub core: u32,
    /// Memory node number.
    pub node: u32,
}

/// Positions of CPUs. Unknown numbers are 0.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Topology {
    places: Vec<CpuPlace>,
}

impl Topology {
    /// Reads the positions of these CPUs.
    pub fn read(cpus: &[u32]) -> Topology {
        Topology::read_below(Path::new(CPUS), cpus)
    }

    fn read_below(folder: &Path, cpus: &[u32]) -> Topology {
        let place = |cpu: &u32| {
            let folder = folder.join(format!("cpu{cpu}"));
            let number = |name: &str| -> u32 {
                let text = fs::read_to_string(folder.join("topology").join(name));
                // Some kernels report a missing number as -1.
                text.ok()
                    .and_then(|text| text.trim().parse().ok())
                    .unwrap_or(0)
            };
            // Core numbers restart in each die of a socket.
            let core = (number("die_id") << 16) | (number("core_id") & 0xffff);
            CpuPlace {
                cpu: *cpu,
                socket: number("physical_package_id"),
                core,
                node: node_of(&folder),
            }
        };
        Topology {
            places: cpus.iter().map(place).collect(),
        }
    }

    /// Returns the position of a CPU; zeros if it was not read.
    pub fn place(&self, cpu: u32) -> CpuPlace {
        let known = self.places.iter().find(|place| place.cpu == cpu);
        known.copied().unwrap_or(CpuPlace {
            cpu,
            ..CpuPlace::default()
        })
    }
}

/// Returns the node that a CPU's folder links to as `node1`.
fn node_of(folder: &Path) -> u32 {
    let names = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut nodes = names.filter_map(|entry| {
        let name = entry.file_name().into_string().ok()?;
        name.strip_prefix("node")?.parse().ok()
    });
    nodes.next().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpus_have_cores_sockets_and_nodes() {
        let folder = tempfile::tempdir().unwrap();
        // cpu, socket, die, core, node: two threads of one core, and a second socket.
        for (cpu, socket, die, core, node) in [(0, 0, 0, 4, 0), (1, 0, 0, 4, 0), (2, 1, 1, 4, 1)] {
            let cpu = folder.path().join(format!("cpu{cpu}"));
            fs::create_dir_all(cpu.join("topology")).unwrap();
            fs::create_dir(cpu.join(format!("node{node}"))).unwrap();
            for (name, number) in [
                ("physical_package_id", socket),
                ("die_id", die),
                ("core_id", core),
            ] {
                fs::write(cpu.join("topology").join(name), format!("{number}\n")).unwrap();
            }
        }
        let found = Topology::read_below(folder.path(), &[0, 1, 2, 3]);
        let place = |cpu| {
            let place = found.place(cpu);
            (place.socket, place.core, place.node)
        };
        assert_eq!(place(0), place(1));
        assert_eq!(place(2), (1, (1 << 16) | 4, 1));
        // A CPU without files, and one that was not read.
        assert_eq!((place(3), place(9)), ((0, 0, 0), (0, 0, 0)));
    }
}
