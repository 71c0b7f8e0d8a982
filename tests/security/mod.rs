//! What strangers can do to whoever records or reads, and cannot.

mod outputs;
