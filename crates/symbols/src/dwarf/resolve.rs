//! Lookup of many addresses, each unit once.

use super::batch::Batch;
use super::debug_info::DebugInfo;
use super::query::{DwarfQuery, Found};
use gimli::SectionId;
use rprof_parallel::map_chunks;
use std::sync::Arc;

const MAX_CLAIMS: usize = 8;

impl DebugInfo<'_> {
    /// Looks up sorted `svmas`. Returns one result for each.
    pub(crate) fn resolve(
        &self,
        svmas: &[u64],
        query: DwarfQuery,
        threads: usize,
    ) -> Vec<Option<Found>> {
        let mut results: Vec<Option<Found>> = vec![None; svmas.len()];
        let (file, bytes) = self.main;
        let is_first = file.units.get().is_none();
        file.sections.inflate(bytes, query.lines, threads);
        let units = file.units(bytes, threads);
        let work = Arc::new(file.work(svmas.len()));
        if is_first && let Some(all) = file.sections.place(SectionId::DebugInfo, 0..usize::MAX) {
            self.pages.release(all);
        }
        if let Some((file, bytes)) = self.shared {
            file.sections.inflate(bytes, query.lines, threads);
            file.units(bytes, threads);
        }
        let claims: Vec<Vec<u32>> = svmas
            .iter()
            .map(|&svma| units.at(svma).take(MAX_CLAIMS).collect())
            .collect();
        // If the first unit that claims an address has no function there, search the next.
        for round in 0..MAX_CLAIMS {
            let mut asked: Vec<(u32, usize)> = Vec::new();
            for (index, claims) in claims.iter().enumerate() {
                let done = (results[index].as_ref()).is_some_and(|found| !found.frames.is_empty());
                if let Some(&unit) = claims.get(round)
                    && !done
                {
                    asked.push((unit, index));
                }
            }
            if asked.is_empty() {
                break;
            }
            asked.sort_unstable();
            let groups: Vec<&[(u32, usize)]> = asked.chunk_by(|a, b| a.0 == b.0).collect();
            let piece = groups.len().div_ceil(threads.max(1) * 16).max(1);
            let found = map_chunks(threads, &groups, piece, |groups| {
                let mut batch = Batch::new(*self, query, &work);
                let mut found = Vec::new();
                for group in groups {
                    let Some(&(unit, _)) = group.first() else {
                        continue;
                    };
                    let svmas: Vec<u64> = group.iter().map(|&(_, index)| svmas[index]).collect();
                    let offset = units.offset(unit);
                    let indexes = group.iter().map(|&(_, index)| index);
                    found.extend(indexes.zip(batch.unit(offset, &svmas)));
                }
                found
            });
            for (index, found) in found.into_iter().flatten() {
                let known = results[index].get_or_insert_with(Found::default);
                if known.line.is_none() || !found.frames.is_empty() && found.line.is_some() {
                    known.line = found.line;
                }
                if known.frames.is_empty() {
                    (known.frames, known.range) = (found.frames, found.range);
                }
            }
        }
        results
    }
}
