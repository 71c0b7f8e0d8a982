//! [`TraceArea`]: memory that a tracing unit writes into.

use rprof_perf_event::AuxRing;

pub(crate) trait TraceArea: std::fmt::Debug + Send {
    fn size(&self) -> usize;

    fn position(&self) -> u64;

    fn unread(&self) -> usize;

    /// Moves up to `limit` unread bytes to `out`. Returns their number.
    fn read_into(&mut self, out: &mut Vec<u8>, limit: usize) -> usize;
}

impl TraceArea for AuxRing {
    fn size(&self) -> usize {
        AuxRing::size(self)
    }

    fn position(&self) -> u64 {
        AuxRing::position(self)
    }

    fn unread(&self) -> usize {
        AuxRing::unread(self)
    }

    fn read_into(&mut self, out: &mut Vec<u8>, limit: usize) -> usize {
        AuxRing::read_into(self, out, limit)
    }
}

#[cfg(test)]
pub(crate) mod made_up {
    use super::TraceArea;

    #[derive(Debug)]
    pub(crate) struct MadeUpArea {
        pub(crate) size: usize,
        pub(crate) position: u64,
        pub(crate) end: u64,
    }

    impl TraceArea for MadeUpArea {
        fn size(&self) -> usize {
            self.size
        }

        fn position(&self) -> u64 {
            self.position
        }

        fn unread(&self) -> usize {
            ((self.end - self.position) as usize).min(self.size)
        }

        fn read_into(&mut self, out: &mut Vec<u8>, limit: usize) -> usize {
            let count = self.unread().min(limit);
            let range = self.position..self.position + count as u64;
            out.extend(range.map(|number| (number % 251) as u8));
            self.position += count as u64;
            count
        }
    }
}
