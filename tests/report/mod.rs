//! Commands that read recordings.

mod agreement_with_perf;
mod aux_traces;
mod by_language;
mod call_trees;
mod collapse;
mod cpuprofile;
mod explain;
mod export;
mod filters;
mod flamegraph;
mod folded_input;
mod header;
mod imports;
mod inputs;
mod latency;
mod nothing_found;
mod oracles;
mod perfetto;
mod profiles_of_others;
mod script;
mod shares;
mod table;
mod tui;
mod waits;
