//! Topology of CPUs and memory.

use super::codec::Decoder;
use super::{Feature, FeatureSections};

/// Cores, threads and dies (CPU_TOPOLOGY). CPU lists have the form of sysfs: `0-3,8`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CpuTopology {
    /// CPUs that share a socket (perf: "sibling sockets").
    pub sockets: Vec<String>,
    /// CPUs that share a core ("sibling threads").
    pub cores: Vec<String>,
    /// CPUs that share a die. perf writes them since 5.2, if there are several dies.
    pub dies: Vec<String>,
    /// Core and socket by CPU number. perf writes them since 3.19.
    pub cpus: Vec<CpuTopologyEntry>,
}

/// Core, die and socket of a CPU; -1 if the kernel does not know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpuTopologyEntry {
    /// Core number within the die.
    pub core: i32,
    /// Number of the socket (`physical_package_id`).
    pub socket: i32,
    /// Die number, if recorded.
    pub die: Option<i32>,
}

/// Memory node (NUMA_TOPOLOGY).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NumaNode {
    /// Number of the memory node, from 0.
    pub node: u32,
    /// Total memory in KiB.
    pub total: u64,
    /// Free memory in KiB.
    pub free: u64,
    /// CPUs, as a list.
    pub cpus: String,
}

/// Core type (HYBRID_TOPOLOGY).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HybridPmu {
    /// PMU of these CPUs, such as `cpu_core`.
    pub pmu: String,
    /// CPUs, as a list.
    pub cpus: String,
}

impl FeatureSections {
    /// Returns cores, threads and dies. Without NRCPUS, dies are not decoded.
    pub fn cpu_topology(&self) -> Option<CpuTopology> {
        let mut section = self.decoder(Feature::CPU_TOPOLOGY)?;
        let mut topology = CpuTopology {
            sockets: section.list(4, Decoder::string)?,
            cores: section.list(4, Decoder::string)?,
            ..CpuTopology::default()
        };
        let count = match self.cpu_counts() {
            Some((available, _)) => u64::from(available),
            None => section.left() as u64 / 8,
        };
        // The oldest form ends here; pipe mode may have padding instead.
        let places = section.items(count, 8, |s| {
            Some(CpuTopologyEntry {
                core: s.i32()?,
                socket: s.i32()?,
                die: None,
            })
        });
        if let Some(places) = places {
            topology.cpus = places;
            if let Some((dies, numbers)) = read_dies(&mut section, count)
                && !dies.is_empty()
            {
                topology.dies = dies;
                for (cpu, die) in topology.cpus.iter_mut().zip(numbers) {
                    cpu.die = Some(die);
                }
            }
        }
        Some(topology)
    }

    /// Sets cores, threads and dies. [`insert_cpu_counts`](Self::insert_cpu_counts) must set as
    /// many available CPUs.
    pub fn insert_cpu_topology(&mut self, topology: &CpuTopology) {
        self.encode(Feature::CPU_TOPOLOGY, |out| {
            out.list(&topology.sockets, |out, cpus| out.string(cpus));
            out.list(&topology.cores, |out, cpus| out.string(cpus));
            for cpu in &topology.cpus {
                out.u32(cpu.core.cast_unsigned());
                out.u32(cpu.socket.cast_unsigned());
            }
            if !topology.dies.is_empty() {
                out.list(&topology.dies, |out, cpus| out.string(cpus));
                for cpu in &topology.cpus {
                    out.u32(cpu.die.unwrap_or(-1).cast_unsigned());
                }
            }
        });
    }

    /// Returns the memory nodes (NUMA_TOPOLOGY); `None` without the section.
    pub fn numa_nodes(&self) -> Option<Vec<NumaNode>> {
        self.decoder(Feature::NUMA_TOPOLOGY)?.list(24, |section| {
            Some(NumaNode {
                node: section.u32()?,
                total: section.u64()?,
                free: section.u64()?,
                cpus: section.string()?,
            })
        })
    }

    /// Sets the memory nodes.
    pub fn insert_numa_nodes(&mut self, nodes: &[NumaNode]) {
        self.encode(Feature::NUMA_TOPOLOGY, |out| {
            out.list(nodes, |out, node| {
                out.u32(node.node);
                out.u64(node.total);
                out.u64(node.free);
                out.string(&node.cpus);
            });
        });
    }

    /// Returns the core types.
    pub fn hybrid_pmus(&self) -> Option<Vec<HybridPmu>> {
        self.decoder(Feature::HYBRID_TOPOLOGY)?.list(8, |section| {
            Some(HybridPmu {
                pmu: section.string()?,
                cpus: section.string()?,
            })
        })
    }

    /// Sets the core types.
    pub fn insert_hybrid_pmus(&mut self, pmus: &[HybridPmu]) {
        self.encode(Feature::HYBRID_TOPOLOGY, |out| {
            out.list(pmus, |out, kind| {
                out.string(&kind.pmu);
                out.string(&kind.cpus);
            });
        });
    }
}

fn read_dies(section: &mut Decoder<'_>, count: u64) -> Option<(Vec<String>, Vec<i32>)> {
    let dies = section.list(4, Decoder::string)?;
    Some((dies, section.items(count, 4, Decoder::i32)?))
}

#[cfg(test)]
mod tests {
    use super::super::in_both_orders;
    use super::*;

    fn topology(dies: bool) -> CpuTopology {
        CpuTopology {
            sockets: vec!["0-1".into()],
            cores: vec!["0".into(), "1".into()],
            dies: if dies { vec!["0-1".into()] } else { vec![] },
            cpus: (0..2)
                .map(|core| CpuTopologyEntry {
                    core,
                    socket: 0,
                    die: dies.then_some(0),
                })
                .collect(),
        }
    }

    #[test]
    fn every_form_of_the_cpu_topology_is_read() {
        in_both_orders(|f| {
            f.insert_cpu_counts(2, 2);
            for mut one in [topology(false), topology(true)] {
                f.insert_cpu_topology(&one);
                assert_eq!(f.cpu_topology().unwrap(), one);
                // perf 6.12 pads it in a pipe.
                let mut padded = f.get(Feature::CPU_TOPOLOGY).unwrap().to_vec();
                padded.extend([0; 4]);
                f.insert(Feature::CPU_TOPOLOGY, padded);
                assert_eq!(f.cpu_topology().unwrap(), one);
                (one.cpus, one.dies) = (vec![], vec![]);
                f.insert_cpu_topology(&one);
                assert_eq!(f.cpu_topology().unwrap(), one);
            }
        });
    }

    #[test]
    fn nodes_and_kinds_are_read() {
        in_both_orders(|f| {
            let nodes = [NumaNode {
                node: 1,
                total: 2,
                free: 3,
                cpus: "4".into(),
            }];
            f.insert_numa_nodes(&nodes);
            assert_eq!(f.numa_nodes().unwrap(), nodes);
            let kinds = [HybridPmu {
                pmu: "cpu_atom".into(),
                cpus: "4-7".into(),
            }];
            f.insert_hybrid_pmus(&kinds);
            assert_eq!(f.hybrid_pmus().unwrap(), kinds);
        });
    }
}
