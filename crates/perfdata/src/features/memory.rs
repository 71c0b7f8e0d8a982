//! Caches and physical memory.

use super::codec::Decoder;
use super::{Feature, FeatureSections};

/// CPU cache (CACHE). Equal caches of several CPUs have separate entries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cache {
    /// Cache level; 1 is next to the core.
    pub level: u32,
    /// Line size in bytes.
    pub line_size: u32,
    /// Number of sets of cache lines.
    pub sets: u32,
    /// Ways of associativity.
    pub ways: u32,
    /// `Data`, `Instruction` or `Unified`.
    pub kind: String,
    /// Size as in sysfs: `48K`.
    pub size: String,
    /// CPUs that share the cache, as a list: `0-1`.
    pub cpus: String,
}

/// Blocks of physical memory by node (MEM_TOPOLOGY).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryTopology {
    /// Version of the section; 1.
    pub version: u64,
    /// Block size in bytes.
    pub block_size: u64,
    /// Memory nodes with their blocks.
    pub nodes: Vec<MemoryNode>,
}

/// Blocks of a memory node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryNode {
    /// Number of the memory node, from 0.
    pub node: u64,
    /// Number of bits in the bitmap.
    pub bits: u64,
    /// Bit for each block, lowest first, set if it belongs to the node.
    pub bitmap: Vec<u64>,
}

impl FeatureSections {
    /// Returns the CPU caches (CACHE); `None` without the section.
    pub fn caches(&self) -> Option<Vec<Cache>> {
        let mut section = self.decoder(Feature::CACHE)?;
        if section.u32()? != 1 {
            return None;
        }
        section.list(28, |section| {
            Some(Cache {
                level: section.u32()?,
                line_size: section.u32()?,
                sets: section.u32()?,
                ways: section.u32()?,
                kind: section.string()?,
                size: section.string()?,
                cpus: section.string()?,
            })
        })
    }

    /// Sets the CPU caches.
    pub fn insert_caches(&mut self, caches: &[Cache]) {
        self.encode(Feature::CACHE, |out| {
            out.u32(1);
            out.list(caches, |out, cache| {
                for number in [cache.level, cache.line_size, cache.sets, cache.ways] {
                    out.u32(number);
                }
                for text in [&cache.kind, &cache.size, &cache.cpus] {
                    out.string(text);
                }
            });
        });
    }

    /// Blocks of physical memory by node.
    pub fn memory_topology(&self) -> Option<MemoryTopology> {
        let mut section = self.decoder(Feature::MEM_TOPOLOGY)?;
        let (version, block_size, count) = (section.u64()?, section.u64()?, section.u64()?);
        let nodes = section.items(count, 24, |section| {
            let node = section.u64()?;
            // For the node, and for the bitmap.
            let _bits = section.u64()?;
            let bits = section.u64()?;
            let bitmap = section.items(bits.div_ceil(64), 8, Decoder::u64)?;
            Some(MemoryNode { node, bits, bitmap })
        })?;
        Some(MemoryTopology {
            version,
            block_size,
            nodes,
        })
    }

    /// Sets the blocks of physical memory by node.
    pub fn insert_memory_topology(&mut self, topology: &MemoryTopology) {
        self.encode(Feature::MEM_TOPOLOGY, |out| {
            out.u64(topology.version);
            out.u64(topology.block_size);
            out.u64(topology.nodes.len() as u64);
            for node in &topology.nodes {
                out.u64(node.node);
                out.u64(node.bits);
                out.u64(node.bits);
                node.bitmap.iter().for_each(|word| out.u64(*word));
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::super::in_both_orders;
    use super::*;

    #[test]
    fn reads_back_what_was_set() {
        in_both_orders(|f| {
            let caches = [Cache {
                level: 1,
                line_size: 64,
                sets: 64,
                ways: 8,
                kind: "Data".into(),
                size: "32K".into(),
                cpus: "0-1".into(),
            }];
            f.insert_caches(&caches);
            assert_eq!(f.caches().unwrap(), caches);
            let memory = MemoryTopology {
                version: 1,
                block_size: 1 << 27,
                nodes: vec![MemoryNode {
                    node: 0,
                    bits: 70,
                    bitmap: vec![u64::MAX, 0x3f],
                }],
            };
            f.insert_memory_topology(&memory);
            assert_eq!(f.memory_topology().unwrap(), memory);
        });
    }
}
