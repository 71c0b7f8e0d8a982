//! Questions to a cluster, with a deadline: Ballista itself waits without one.

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use ballista_core::execution_plans::DistributedQueryExec;
use ballista_core::serde::protobuf::scheduler_grpc_client::SchedulerGrpcClient;
use ballista_core::serde::protobuf::{CancelJobParams, GetJobMetricsParams};
use datafusion::arrow::array::RecordBatch;
use datafusion::common::DataFusionError;
use datafusion::physical_plan::{ExecutionPlan, execute_stream};
use datafusion::prelude::DataFrame;
use datafusion_proto::protobuf::LogicalPlanNode;
use futures::StreamExt;
use tokio::time::Instant;

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
    pub(crate) fn check(&self) -> Result<(), Failure> {
        match self.answered.elapsed() {
            silence if silence >= GONE_AFTER => Err(Failure::Gone(silence)),
            _ => Ok(()),
        }
    }

    /// Asks for the number of stages of a job that ended; `None` if it is not told. An answer that says no is an answer.
    async fn ended_stages(&mut self, job: Option<String>) -> Option<usize> {
        let address = self.address.clone();
        let answer = async {
            let mut client = SchedulerGrpcClient::connect(address).await.ok()?;
            // A job that has no name yet is unknown, which is told.
            let job_id = job.unwrap_or_default();
            match client.get_job_metrics(GetJobMetricsParams { job_id }).await {
                Ok(found) => Some(Some(found.into_inner().stages.len())),
                // Failures of the connection have a source, refusals of the scheduler have none.
                Err(status) => status.source().is_none().then_some(None),
            }
        };
        let answer = tokio::time::timeout(REPLY, answer).await.ok().flatten()?;
        self.answered = Instant::now();
        answer
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
    scheduler.check()?;
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
        answer = answer => return answer.map_err(Failure::Reported),
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
    let (mut seen, mut since) = ((0, 0), Instant::now());
    while since.elapsed() < patience {
        tokio::time::sleep(TICK).await;
        let stages = scheduler.ended_stages(job_of(plan)).await;
        let now = (stages.unwrap_or(seen.0), received.load(Ordering::Relaxed));
        if now != seen {
            (seen, since) = (now, Instant::now());
            // Rows come from executors, which may be reached where the scheduler is not.
            scheduler.answered = since;
        }
        if let Err(gone) = scheduler.check() {
            return gone;
        }
    }
    Failure::Silent(patience)
}

/// Returns the job that the scheduler made of a plan, once it did.
fn job_of(plan: &dyn ExecutionPlan) -> Option<String> {
    let query = plan.downcast_ref::<DistributedQueryExec<LogicalPlanNode>>()?;
    Some(query.job_id()?.to_string())
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::datatypes::Schema;
    use datafusion::physical_plan::empty::EmptyExec;
    use tokio::net::TcpListener;

    use super::*;

    /// A scheduler that takes connections and says nothing.
    async fn dumb() -> (TcpListener, Scheduler) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let scheduler = Scheduler::new(&format!("df://{}", listener.local_addr().unwrap()));
        (listener, scheduler)
    }

    fn plan() -> EmptyExec {
        EmptyExec::new(Arc::new(Schema::empty()))
    }

    #[tokio::test(start_paused = true)]
    async fn a_scheduler_without_any_answer_is_gone_before_patience_ends() {
        let (_listener, mut scheduler) = dumb().await;
        let begin = Instant::now();
        let hour = Duration::from_secs(3_600);
        let failure = silence(&plan(), &mut scheduler, &AtomicU64::new(0), hour).await;
        assert!(matches!(failure, Failure::Gone(_)), "{failure:?}");
        assert!(begin.elapsed() < GONE_AFTER + TICK + REPLY);
        // A further try ends before it begins.
        assert!(matches!(scheduler.check(), Err(Failure::Gone(_))));
    }

    #[tokio::test(start_paused = true)]
    async fn a_question_whose_rows_come_is_not_given_up() {
        let (_listener, mut scheduler) = dumb().await;
        let received = AtomicU64::new(0);
        let rows = async {
            for _ in 0..100 {
                tokio::time::sleep(Duration::from_secs(40)).await;
                received.fetch_add(1, Ordering::Relaxed);
            }
        };
        let (plan, patience) = (plan(), Duration::from_secs(60));
        tokio::select! {
            failure = silence(&plan, &mut scheduler, &received, patience) => panic!("{failure:?}"),
            () = rows => {}
        }
    }
}
