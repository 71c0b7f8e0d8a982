//! Cluster queries with a deadline, which Ballista itself lacks.

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use ballista_core::execution_plans::DistributedQueryExec;
use ballista_core::serde::protobuf::scheduler_grpc_client::SchedulerGrpcClient;
use ballista_core::serde::protobuf::{CancelJobParams, GetJobMetricsParams};
use datafusion::arrow::array::RecordBatch;
use datafusion::common::DataFusionError;
use datafusion::physical_plan::{ExecutionPlan, execute_stream};
use datafusion::prelude::DataFrame;
use datafusion_proto::protobuf::LogicalPlanNode;
use futures::StreamExt;

use crate::stop::Job;

/// Interval of progress checks.
const TICK: Duration = Duration::from_secs(2);

/// Timeout of a request to the scheduler.
const REPLY: Duration = Duration::from_secs(10);

/// Time without any response of the scheduler, over all retries, after which it counts as lost.
const GONE_AFTER: Duration = Duration::from_secs(120);

/// Time limit for a submitted job to get the id needed for its cancellation.
const NAMING: Duration = Duration::from_secs(2);

/// Failure of a cluster query.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The cluster reported an error.
    Reported(DataFusionError),
    /// No stage ended and no row arrived for this duration.
    Silent(Duration),
    /// The scheduler did not respond to any request for this duration.
    Gone(Duration),
    /// This process is ending.
    Stopped,
}

impl Failure {
    /// Returns whether a retry may succeed.
    pub(crate) fn may_pass(&self) -> bool {
        matches!(self, Failure::Reported(_) | Failure::Silent(_))
    }
}

impl From<Failure> for DataFusionError {
    fn from(failure: Failure) -> DataFusionError {
        let text = match failure {
            Failure::Reported(error) => return error,
            Failure::Silent(patience) => {
                let seconds = patience.as_secs();
                format!("the cluster made no progress within {seconds} s")
            }
            Failure::Gone(patience) => {
                let seconds = patience.as_secs();
                format!(
                    "the scheduler did not answer for {seconds} s; is it there, and the network?"
                )
            }
            Failure::Stopped => "stopped".to_owned(),
        };
        DataFusionError::Execution(text)
    }
}

/// Scheduler of a query, and the time of its last response over all retries.
pub(crate) struct Scheduler {
    /// Address in gRPC form.
    address: String,
    answered: Instant,
}

impl Scheduler {
    /// Creates a scheduler from an address such as `df://HOST:PORT`. Its response deadline starts
    /// now.
    pub(crate) fn new(address: &str) -> Scheduler {
        Scheduler {
            address: format!("http://{}", address.trim_start_matches("df://")),
            answered: Instant::now(),
        }
    }

    /// Returns an error if the scheduler counts as lost.
    fn check(&self, now: Instant) -> Result<(), Failure> {
        match now.saturating_duration_since(self.answered) {
            silence if silence >= GONE_AFTER => Err(Failure::Gone(silence)),
            _ => Ok(()),
        }
    }

    /// Queries the number of completed stages of a job.
    async fn ended_stages(&self, job: Option<String>) -> Reply {
        let answer = async {
            let client = SchedulerGrpcClient::connect(self.address.clone()).await;
            let Ok(mut client) = client else {
                return Reply::Nothing;
            };
            // For a job without an id, the scheduler replies that it is unknown.
            let job_id = job.unwrap_or_default();
            match client.get_job_metrics(GetJobMetricsParams { job_id }).await {
                Ok(found) => Reply::Stages(found.into_inner().stages.len()),
                // Connection errors have a source; refusals by the scheduler have none.
                Err(status) if status.source().is_none() => Reply::Refusal,
                Err(_) => Reply::Nothing,
            }
        };
        let answer = tokio::time::timeout(REPLY, answer).await;
        answer.unwrap_or(Reply::Nothing)
    }

    /// Cancels a job. A hanging or abandoned job would block the jobs behind it.
    async fn cancel(&self, job_id: String) {
        let cancelled = async {
            let mut client = SchedulerGrpcClient::connect(self.address.clone())
                .await
                .ok()?;
            client.cancel_job(CancelJobParams { job_id }).await.ok()
        };
        tokio::time::timeout(REPLY, cancelled).await.ok();
    }
}

/// Response of a scheduler about a job.
#[derive(Clone, Copy, Debug)]
enum Reply {
    /// No response in time.
    Nothing,
    /// The job is unknown, or has no metrics.
    Refusal,
    /// Number of completed stages.
    Stages(usize),
}

/// Progress of a job, and the time of the last change.
struct Progress {
    stages: usize,
    batches: u64,
    since: Instant,
}

impl Progress {
    /// Records an observation. Returns an error if there was no progress for `patience`, or the
    /// scheduler is lost.
    fn see(
        &mut self,
        scheduler: &mut Scheduler,
        (reply, batches): (Reply, u64),
        patience: Duration,
        now: Instant,
    ) -> Result<(), Failure> {
        let stages = match reply {
            Reply::Stages(stages) => stages,
            Reply::Nothing | Reply::Refusal => self.stages,
        };
        let is_more = (stages, batches) != (self.stages, self.batches);
        if is_more {
            *self = Progress {
                stages,
                batches,
                since: now,
            };
        }
        // Rows come from executors, which may be reachable although the scheduler is not.
        if is_more || !matches!(reply, Reply::Nothing) {
            scheduler.answered = now;
        }
        scheduler.check(now)?;
        match now.saturating_duration_since(self.since) >= patience {
            true => Err(Failure::Silent(patience)),
            false => Ok(()),
        }
    }
}

/// Collects the result of a query. Gives up and cancels the job after `patience` without progress,
/// if the scheduler is lost, or if this process is ending.
pub(crate) async fn collect(
    frame: DataFrame,
    scheduler: &mut Scheduler,
    patience: Duration,
) -> Result<Vec<RecordBatch>, Failure> {
    let mut guard = Job::new();
    if guard.is_stopped() {
        return Err(Failure::Stopped);
    }
    scheduler.check(Instant::now())?;
    let tasks = Arc::new(frame.task_ctx());
    let plan = frame.create_physical_plan().await;
    let plan = plan.map_err(Failure::Reported)?;
    let received = AtomicU64::new(0);
    let answer = async {
        let mut stream = execute_stream(Arc::clone(&plan), tasks)?;
        let mut batches = Vec::new();
        while let Some(batch) = stream.next().await {
            batches.push(batch?);
            received.fetch_add(1, Ordering::Relaxed);
        }
        Ok(batches)
    };
    let failure = tokio::select! {
        answer = answer => match answer {
            Ok(batches) => return Ok(batches),
            // The connection may have failed, not the job.
            Err(error) => Failure::Reported(error),
        },
        failure = silence(plan.as_ref(), scheduler, &received, patience) => failure,
        () = stopped(&mut guard, plan.as_ref()) => Failure::Stopped,
    };
    if let Some(job) = job_of(plan.as_ref()).filter(|_| !matches!(failure, Failure::Gone(_))) {
        scheduler.cancel(job).await;
    }
    Err(failure)
}

/// Returns after this process was asked to end, and the job id is known or late.
async fn stopped(guard: &mut Job, plan: &dyn ExecutionPlan) {
    guard.stopped().await;
    let end = Instant::now() + NAMING;
    while job_of(plan).is_none() && Instant::now() < end {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Returns when no stage completed and no batch arrived for `patience`, or the scheduler is lost.
async fn silence(
    plan: &dyn ExecutionPlan,
    scheduler: &mut Scheduler,
    received: &AtomicU64,
    patience: Duration,
) -> Failure {
    let mut progress = Progress {
        stages: 0,
        batches: 0,
        since: Instant::now(),
    };
    loop {
        tokio::time::sleep(TICK).await;
        let reply = scheduler.ended_stages(job_of(plan)).await;
        let seen = (reply, received.load(Ordering::Relaxed));
        if let Err(failure) = progress.see(scheduler, seen, patience, Instant::now()) {
            return failure;
        }
    }
}

/// Returns the id of the job for a plan, once the scheduler has created it.
fn job_of(plan: &dyn ExecutionPlan) -> Option<String> {
    let query = plan.downcast_ref::<DistributedQueryExec<LogicalPlanNode>>()?;
    Some(query.job_id()?.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENCE: Duration = Duration::from_secs(45);

    /// Simulates one observation per second. Returns the failure, if any, and its second.
    fn failure(seen: impl Fn(u64) -> (Reply, u64)) -> Option<(u64, Failure)> {
        let begin = Instant::now();
        let mut scheduler = Scheduler::new("df://nowhere:1");
        scheduler.answered = begin;
        let mut progress = Progress {
            stages: 0,
            batches: 0,
            since: begin,
        };
        (1..10_000).find_map(|second| {
            let now = begin + Duration::from_secs(second);
            let found = progress.see(&mut scheduler, seen(second), PATIENCE, now);
            Some((second, found.err()?))
        })
    }

    #[test]
    fn a_scheduler_that_answers_nothing_is_gone_whatever_the_patience() {
        let begin = Instant::now();
        let mut scheduler = Scheduler::new("df://nowhere:1");
        scheduler.answered = begin;
        let mut progress = Progress {
            stages: 0,
            batches: 0,
            since: begin,
        };
        let mut see = |after: Duration| {
            let hour = Duration::from_secs(3_600);
            progress.see(&mut scheduler, (Reply::Nothing, 0), hour, begin + after)
        };
        assert!(see(GONE_AFTER - TICK).is_ok());
        assert!(matches!(see(GONE_AFTER), Err(Failure::Gone(GONE_AFTER))));
        // A further retry fails before it starts.
        assert!(scheduler.check(begin + GONE_AFTER).is_err());
    }

    #[test]
    fn a_job_that_stands_still_is_given_up_though_the_scheduler_answers() {
        for reply in [Reply::Refusal, Reply::Stages(0)] {
            let (second, failure) = failure(|_| (reply, 0)).expect("a failure");
            assert!(matches!(failure, Failure::Silent(PATIENCE)), "{failure:?}");
            assert_eq!(second, PATIENCE.as_secs());
        }
    }

    #[test]
    fn a_job_that_makes_progress_is_never_given_up() {
        assert!(failure(|second| (Reply::Stages(second as usize / 40), 0)).is_none());
        assert!(failure(|second| (Reply::Refusal, second / 40)).is_none());
        // Executors send rows although the scheduler does not respond.
        assert!(failure(|second| (Reply::Nothing, second / 40)).is_none());
    }
}
