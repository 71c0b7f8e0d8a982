//! Type-erased writers of the caller.

use std::io;

use rprof_perfdata::{EventDescription, FeatureSections, RecordWriter};

type CreateWriter =
    dyn FnOnce(&[EventDescription], &FeatureSections) -> io::Result<Box<dyn CustomWriter>> + Send;

/// Creates the caller's writer from events and features; see
/// [`Output::writer`](crate::Output::writer).
pub struct WriterFactory(Box<CreateWriter>);

impl WriterFactory {
    pub(crate) fn new<W, F>(create: F) -> WriterFactory
    where
        W: RecordWriter + Send + 'static,
        F: FnOnce(&[EventDescription], &FeatureSections) -> io::Result<W> + Send + 'static,
    {
        WriterFactory(Box::new(|events, features| {
            Ok(Box::new(create(events, features)?))
        }))
    }

    pub(crate) fn create(
        self,
        events: &[EventDescription],
        features: &FeatureSections,
    ) -> io::Result<Box<dyn CustomWriter>> {
        (self.0)(events, features)
    }
}

impl std::fmt::Debug for WriterFactory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("WriterFactory")
    }
}

pub(crate) trait CustomWriter: RecordWriter + Send {
    fn finish_boxed(self: Box<Self>, features: FeatureSections) -> io::Result<u64>;
}

impl<W: RecordWriter + Send> CustomWriter for W {
    fn finish_boxed(self: Box<Self>, features: FeatureSections) -> io::Result<u64> {
        self.finish(features)
    }
}
