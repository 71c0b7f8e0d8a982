//! BPF programs loaded during the recording, and their types.

use super::{Feature, FeatureSections};

/// A BPF program (BPF_PROG_INFO).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BpfProgram {
    /// Bit mask of the arrays in `data` that `info` refers to, numbered as in perf's `bpil.h`.
    pub arrays: u64,
    /// `struct bpf_prog_info` of the kernel, in the recorder's version and byte order.
    pub info: Vec<u8>,
    /// The arrays (code, line tables and others), concatenated.
    pub data: Vec<u8>,
}

/// Type information (BPF_BTF).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BpfBtf {
    /// Id of the BTF object in the kernel.
    pub id: u32,
    /// The BTF blob.
    pub data: Vec<u8>,
}

impl FeatureSections {
    /// Returns the BPF programs of the kernel while recording (BPF_PROG_INFO); `None` without the
    /// section.
    pub fn bpf_programs(&self) -> Option<Vec<BpfProgram>> {
        self.decoder(Feature::BPF_PROG_INFO)?.list(16, |section| {
            let (info, data) = (section.u32()?, section.u32()?);
            Some(BpfProgram {
                arrays: section.u64()?,
                info: section.take(info as usize)?.to_vec(),
                data: section.take(data as usize)?.to_vec(),
            })
        })
    }

    /// Sets the BPF programs.
    pub fn insert_bpf_programs(&mut self, programs: &[BpfProgram]) {
        self.encode(Feature::BPF_PROG_INFO, |out| {
            out.list(programs, |out, program| {
                out.u32(program.info.len() as u32);
                out.u32(program.data.len() as u32);
                out.u64(program.arrays);
                out.bytes.extend_from_slice(&program.info);
                out.bytes.extend_from_slice(&program.data);
            });
        });
    }

    /// Returns the type information of BPF programs (BPF_BTF); `None` without the section.
    pub fn bpf_btf(&self) -> Option<Vec<BpfBtf>> {
        self.decoder(Feature::BPF_BTF)?.list(8, |section| {
            let (id, len) = (section.u32()?, section.u32()?);
            let data = section.take(len as usize)?.to_vec();
            Some(BpfBtf { id, data })
        })
    }

    /// Sets the type information.
    pub fn insert_bpf_btf(&mut self, blobs: &[BpfBtf]) {
        self.encode(Feature::BPF_BTF, |out| {
            out.list(blobs, |out, blob| {
                out.u32(blob.id);
                out.u32(blob.data.len() as u32);
                out.bytes.extend_from_slice(&blob.data);
            });
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
            let programs = [BpfProgram {
                arrays: 3,
                info: vec![1; 208],
                data: vec![2; 64],
            }];
            f.insert_bpf_programs(&programs);
            assert_eq!(f.bpf_programs().unwrap(), programs);
            let blobs = [BpfBtf {
                id: 7,
                data: vec![3; 30],
            }];
            f.insert_bpf_btf(&blobs);
            assert_eq!(f.bpf_btf().unwrap(), blobs);
        });
    }
}
