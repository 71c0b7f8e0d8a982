//! Arguments of `record` for what samples hold beyond the usual, and for further records.

use clap::Args;
use rprof_events::parse_branch_filter;
use rprof_records::{AttrFlags, BranchSampleType, SampleType};
use rprof_sampler::{Clock, SessionBuilder};

use super::suggested::{BRANCH_FILTERS, CLOCKS, suggested, text};
use super::values::{self, RegisterList};

/// Options for what is recorded with each sample, and beside samples.
#[derive(Debug, Args)]
#[command(next_help_heading = "More in each sample, more records")]
pub(crate) struct ExtraArgs {
    /// Record the data address of each sample and what the access met, and mappings of data (perf's `-d`)
    #[arg(long)]
    pub(crate) data: bool,

    /// Record what each event cost, for events that measure it, such as memory loads
    #[arg(short = 'W', long)]
    pub(crate) weight: bool,

    /// Record the physical address of the data; takes root or CAP_PERFMON
    #[arg(long)]
    pub(crate) phys_data: bool,

    /// Record the size of the page in which the data lies
    #[arg(long)]
    pub(crate) data_page_size: bool,

    /// Record the size of the page in which the code lies
    #[arg(long)]
    pub(crate) code_page_size: bool,

    /// Record how transactions in memory ended, for events that tell
    #[arg(long)]
    pub(crate) transaction: bool,

    /// Record the branches taken before each sample, as `-j any`
    #[arg(short = 'b', long, conflicts_with = "branch_filter")]
    pub(crate) branch_any: bool,

    /// Record the branches of some kinds before each sample: `any_call`, `ind_call,u`, …
    #[arg(short = 'j', long, value_name = "FILTER", value_parser = suggested(BRANCH_FILTERS, branch_filter), hide_possible_values = true)]
    pub(crate) branch_filter: Option<BranchSampleType>,

    /// Record registers of user mode: all, or a list such as `ip,sp`; `?` lists them
    #[arg(long, value_name = "REGS", num_args = 0..=1, require_equals = true, default_missing_value = "all", value_parser = values::registers)]
    pub(crate) user_regs: Option<RegisterList>,

    /// Record registers at the moment of the sample: all, or a list such as `ip,sp`; `?` lists them
    #[arg(short = 'I', long, value_name = "REGS", num_args = 0..=1, require_equals = true, default_missing_value = "all", value_parser = values::registers)]
    pub(crate) intr_regs: Option<RegisterList>,

    /// Count each thread for itself, with a record of its counts when it ends (perf's `-s`)
    #[arg(short = 's', long)]
    pub(crate) thread_counts: bool,

    /// Record when threads are switched in and out
    #[arg(long)]
    pub(crate) switch_events: bool,

    /// Record in which namespaces threads are; takes root or CAP_PERFMON
    #[arg(long)]
    pub(crate) namespaces: bool,

    /// Record in which control group each sample was taken
    #[arg(long)]
    pub(crate) all_cgroups: bool,

    /// Clock of the times: monotonic, monotonic_raw, realtime, boottime or tai [default: monotonic]
    #[arg(short = 'k', long, value_name = "CLOCK", value_parser = suggested(CLOCKS, text::<Clock>), hide_possible_values = true)]
    pub(crate) clockid: Option<Clock>,

    /// Most callers that the kernel follows by frame pointers [default: kernel.perf_event_max_stack]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) max_stack: Option<u16>,

    /// Keep only the last samples, as many as the buffers of -m hold, and write them at the end, or on SIGUSR2 with --switch-output
    #[arg(long)]
    pub(crate) overwrite: bool,

    // What follows is recorded in any case; fingers that know perf may type it.
    #[arg(short = 'T', long, hide = true)]
    pub(crate) timestamp: bool,

    #[arg(long, hide = true)]
    pub(crate) sample_cpu: bool,

    #[arg(short = 'P', long, hide = true)]
    pub(crate) period: bool,

    #[arg(long, hide = true)]
    pub(crate) sample_identifier: bool,
}

impl ExtraArgs {
    /// Adds what is asked for to a recording.
    pub(crate) fn apply(&self, builder: SessionBuilder) -> SessionBuilder {
        let fields = [
            (self.data, SampleType::ADDR | SampleType::DATA_SRC),
            (self.weight, SampleType::WEIGHT_STRUCT),
            (self.phys_data, SampleType::PHYS_ADDR),
            (self.data_page_size, SampleType::DATA_PAGE_SIZE),
            (self.code_page_size, SampleType::CODE_PAGE_SIZE),
            (self.transaction, SampleType::TRANSACTION),
            (self.all_cgroups, SampleType::CGROUP),
        ];
        let records = [
            (self.data, AttrFlags::MMAP_DATA),
            (self.switch_events, AttrFlags::CONTEXT_SWITCH),
            (self.namespaces, AttrFlags::NAMESPACES),
            (self.all_cgroups, AttrFlags::CGROUP),
        ];
        let any = self.branch_any.then_some(BranchSampleType::ANY);
        let mask = |list: Option<RegisterList>| list.map_or(0, |list| list.0);
        let builder = builder.extras(|extras| {
            let asked = fields.iter().filter(|(is_asked, _)| *is_asked);
            asked.for_each(|(_, field)| extras.fields |= *field);
            let asked = records.iter().filter(|(is_asked, _)| *is_asked);
            asked.for_each(|(_, record)| extras.records |= *record);
            extras.thread_counts = self.thread_counts;
            extras.branches = any.or(self.branch_filter).unwrap_or_default();
            extras.user_registers = mask(self.user_regs);
            extras.interrupt_registers = mask(self.intr_regs);
        });
        let builder = builder.overwrite(self.overwrite);
        let builder = match self.clockid {
            Some(clock) => builder.clock(clock),
            None => builder,
        };
        match self.max_stack {
            Some(most) => builder.max_stack(most),
            None => builder,
        }
    }
}

fn branch_filter(text: &str) -> Result<BranchSampleType, String> {
    parse_branch_filter(text).map_err(|error| error.to_string())
}
