//! Arguments of `record` for additional sample fields and records.

use clap::Args;
use rprof_events::parse_branch_filter;
use rprof_records::{AttrFlags, BranchSampleType, SampleType};
use rprof_sampler::{Clock, SessionBuilder};

use super::suggested::{BRANCH_FILTERS, CLOCKS, suggested, text};
use super::values::{self, RegisterList};

/// Options for additional sample fields and records.
#[derive(Debug, Args)]
#[command(next_help_heading = "Additional fields and records")]
pub(crate) struct ExtraArgs {
    /// Record data address and data source (cache level, snoop, TLB) of samples, and data mappings
    /// (perf's `-d`)
    #[arg(long)]
    pub(crate) data: bool,

    /// Record the latency of each sample (weight), for events such as memory loads
    #[arg(short = 'W', long)]
    pub(crate) weight: bool,

    /// Record physical data addresses; needs root or CAP_PERFMON
    #[arg(long)]
    pub(crate) phys_data: bool,

    /// Record the page size of the data address
    #[arg(long)]
    pub(crate) data_page_size: bool,

    /// Record the page size of the code address
    #[arg(long)]
    pub(crate) code_page_size: bool,

    /// Record the outcome of hardware memory transactions (TSX)
    #[arg(long)]
    pub(crate) transaction: bool,

    /// Record the branches taken before each sample (`-j any`)
    #[arg(short = 'b', long, conflicts_with = "branch_filter")]
    pub(crate) branch_any: bool,

    /// Record branches of these kinds before each sample: `any_call`, `ind_call,u`, …
    #[arg(short = 'j', long, value_name = "FILTER", value_parser = suggested(BRANCH_FILTERS, branch_filter), hide_possible_values = true)]
    pub(crate) branch_filter: Option<BranchSampleType>,

    /// Record user-mode registers: all, or a list such as `ip,sp`; `?` lists them
    #[arg(long, value_name = "REGS", num_args = 0..=1, require_equals = true, default_missing_value = "all", value_parser = values::registers)]
    pub(crate) user_regs: Option<RegisterList>,

    /// Record registers at the time of the sample: all, or a list such as `ip,sp`; `?` lists them
    #[arg(short = 'I', long, value_name = "REGS", num_args = 0..=1, require_equals = true, default_missing_value = "all", value_parser = values::registers)]
    pub(crate) intr_regs: Option<RegisterList>,

    /// Count events per thread, and record the counts when a thread ends (perf's `-s`)
    #[arg(short = 's', long)]
    pub(crate) thread_counts: bool,

    /// Record context switches
    #[arg(long)]
    pub(crate) switch_events: bool,

    /// Record the namespaces of threads; needs root or CAP_PERFMON
    #[arg(long)]
    pub(crate) namespaces: bool,

    /// Record the control group of each sample
    #[arg(long)]
    pub(crate) all_cgroups: bool,

    /// Clock for timestamps: monotonic, monotonic_raw, realtime, boottime or tai [default:
    /// monotonic]
    #[arg(short = 'k', long, value_name = "CLOCK", value_parser = suggested(CLOCKS, text::<Clock>), hide_possible_values = true)]
    pub(crate) clockid: Option<Clock>,

    /// Maximum callchain length in the kernel, in frames [default: kernel.perf_event_max_stack]
    #[arg(long, value_name = "N", value_parser = values::number::<u16>(1..))]
    pub(crate) max_stack: Option<u16>,

    /// Keep only the newest samples that fit into the buffers of -m; write them at the end, or on
    /// SIGUSR2 with --switch-output
    #[arg(long)]
    pub(crate) overwrite: bool,

    // Accepted as in perf: rprof always records these fields.
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
