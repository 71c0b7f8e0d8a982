//! Questions to a cluster, with a deadline: Ballista itself waits without one.

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

/// Time between two looks at the progress of a job.
const TICK: Duration = Duration::from_secs(2);

/// Time that a scheduler has to answer about a job.
const REPLY: Duration = Duration::from_secs(10);

/// Failure of a question to a cluster.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The cluster reported it.
    Reported(DataFusionError),
    /// No stage ended and no row came for so long.
    Silent(Duration),
}

impl From<Failure> for DataFusionError {
    fn from(failure: Failure) -> DataFusionError {
        match failure {
            Failure::Reported(error) => error,
            Failure::Silent(patience) => DataFusionError::Execution(format!(
                "the cluster made no progress within {} s",
                patience.as_secs()
            )),
        }
    }
}

/// Collects the answer to a question; gives up, and has the job cancelled, after `patience` without progress.
pub(crate) async fn collect(
    frame: DataFrame,
    scheduler: &str,
    patience: Duration,
) -> Result<Vec<RecordBatch>, Failure> {
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
    let waited = tokio::select! {
        answer = answer => Some(answer),
        () = silence(plan.as_ref(), scheduler, &received, patience) => None,
    };
    match waited {
        Some(answer) => answer.map_err(Failure::Reported),
        None => {
            // A job that hangs takes the tasks of those behind it.
            if let Some(job) = job_of(plan.as_ref()) {
                let cancelled = async {
                    let mut client = SchedulerGrpcClient::connect(address(scheduler))
                        .await
                        .ok()?;
                    client
                        .cancel_job(CancelJobParams { job_id: job })
                        .await
                        .ok()
                };
                tokio::time::timeout(REPLY, cancelled).await.ok();
            }
            Err(Failure::Silent(patience))
        }
    }
}

/// Returns once no stage of the job ended, and no batch was received, for the time of `patience`.
async fn silence(
    plan: &dyn ExecutionPlan,
    scheduler: &str,
    received: &AtomicU64,
    patience: Duration,
) {
    let (mut seen, mut since) = ((0, 0), Instant::now());
    while since.elapsed() < patience {
        tokio::time::sleep(TICK).await;
        let stages = tokio::time::timeout(REPLY, ended_stages(plan, scheduler)).await;
        // A scheduler that does not answer is no progress.
        let stages = stages.ok().flatten().unwrap_or(seen.0);
        let now = (stages, received.load(Ordering::Relaxed));
        if now != seen {
            (seen, since) = (now, Instant::now());
        }
    }
}

/// Returns the number of stages that ended.
async fn ended_stages(plan: &dyn ExecutionPlan, scheduler: &str) -> Option<usize> {
    let job_id = job_of(plan)?;
    let mut client = SchedulerGrpcClient::connect(address(scheduler))
        .await
        .ok()?;
    let found = client.get_job_metrics(GetJobMetricsParams { job_id }).await;
    Some(found.ok()?.into_inner().stages.len())
}

/// Returns the job that the scheduler made of a plan, once it did.
fn job_of(plan: &dyn ExecutionPlan) -> Option<String> {
    let query = plan.downcast_ref::<DistributedQueryExec<LogicalPlanNode>>()?;
    Some(query.job_id()?.to_string())
}

/// Returns the address of a scheduler as gRPC has it.
fn address(scheduler: &str) -> String {
    format!("http://{}", scheduler.trim_start_matches("df://"))
}
