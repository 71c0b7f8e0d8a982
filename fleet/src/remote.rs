//! Questions to a cluster, with a deadline: Ballista itself waits without one.

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

/// Time between two looks at the progress of a job.
const TICK: Duration = Duration::from_secs(2);

/// Time that a scheduler has to answer about a job.
const REPLY: Duration = Duration::from_secs(10);

/// Time without any answer of the scheduler, over all tries, after which it counts as gone.
const GONE_AFTER: Duration = Duration::from_secs(120);

/// Time in which a job that was just sent gets its name, by which it can be cancelled.
const NAMING: Duration = Duration::from_secs(2);

/// Failure of a question to a cluster.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The cluster reported it.
    Reported(DataFusionError),
    /// No stage ended and no row came for so long.
    Silent(Duration),
    /// The scheduler did not answer for so long, whatever was asked.
    Gone(Duration),
    /// This process ends.
    Stopped,
}

impl Failure {
    /// Returns whether asking again is of use.
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

/// The scheduler of a question, with the last time that it answered: over all tries.
pub(crate) struct Scheduler {
    /// Address as gRPC has it.
    address: String,
    answered: Instant,
}

impl Scheduler {
    /// Takes an address such as `df://HOST:PORT`. Its time to answer begins.
    pub(crate) fn new(address: &str) -> Scheduler {
        Scheduler {
            address: format!("http://{}", address.trim_start_matches("df://")),
            answered: Instant::now(),
        }
    }

    /// Fails if the scheduler has not answered for so long that it counts as gone.
    fn check(&self, now: Instant) -> Result<(), Failure> {
        match now.saturating_duration_since(self.answered) {
            silence if silence >= GONE_AFTER => Err(Failure::Gone(silence)),
            _ => Ok(()),
        }
    }

    /// Asks for the number of stages of a job that ended.
    async fn ended_stages(&self, job: Option<String>) -> Reply {
        let answer = async {
            let client = SchedulerGrpcClient::connect(self.address.clone()).await;
            let Ok(mut client) = client else {
                return Reply::Nothing;
            };
            // A job that has no name yet is unknown, which is told.
            let job_id = job.unwrap_or_default();
            match client.get_job_metrics(GetJobMetricsParams { job_id }).await {
                Ok(found) => Reply::Stages(found.into_inner().stages.len()),
                // Failures of the connection have a source, refusals of the scheduler have none.
                Err(status) if status.source().is_none() => Reply::Refusal,
                Err(_) => Reply::Nothing,
            }
        };
        let answer = tokio::time::timeout(REPLY, answer).await;
        answer.unwrap_or(Reply::Nothing)
    }

    /// Has a job cancelled, since one that hangs, or that nobody waits for, takes the tasks of those behind it.
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

/// Answer of a scheduler about a job.
#[derive(Clone, Copy, Debug)]
enum Reply {
    /// None, in time.
    Nothing,
    /// It does not know the job, or has no figures of it.
    Refusal,
    /// Number of stages that ended.
    Stages(usize),
}

/// Progress of a job, and the last time that there was any.
struct Progress {
    stages: usize,
    batches: u64,
    since: Instant,
}

impl Progress {
    /// Takes what is seen at a time, and fails if there was no progress for the time of `patience`, or the scheduler is gone.
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
        // Rows come from executors, which may be reached where the scheduler is not.
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

/// Collects the answer to a question; gives up, and has the job cancelled, after `patience` without progress, if the scheduler is gone, or if this
/// process ends.
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
            // It may be the connection that failed, and not the job.
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

/// Returns once this process is asked to end, and the name of the job is known or does not come.
async fn stopped(guard: &mut Job, plan: &dyn ExecutionPlan) {
    guard.stopped().await;
    let end = Instant::now() + NAMING;
    while job_of(plan).is_none() && Instant::now() < end {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Returns once no stage of the job ended, and no batch was received, for the time of `patience`, or the scheduler is gone.
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

/// Returns the job that the scheduler made of a plan, once it did.
fn job_of(plan: &dyn ExecutionPlan) -> Option<String> {
    let query = plan.downcast_ref::<DistributedQueryExec<LogicalPlanNode>>()?;
    Some(query.job_id()?.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENCE: Duration = Duration::from_secs(45);

    /// Returns the failure, if any, and the second of it, where each second has such a reply and number of batches.
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
        // A further try ends before it begins.
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
        // Rows come from executors where the scheduler does not answer.
        assert!(failure(|second| (Reply::Nothing, second / 40)).is_none());
    }
}
