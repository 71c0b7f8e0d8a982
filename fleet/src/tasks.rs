//! Tasks of an executor, which end with their job.
//!
//! With the pull policy, Ballista 55 cannot report a cancelled job to executors ("Failed to get
//! client for executor" in the scheduler's log). Their tasks would run to the end and block other
//! jobs. So each task polls the status of its job. A task that never yields, such as a cross join,
//! cannot poll.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use ballista_core::JobId;
use ballista_core::serde::protobuf::job_status::Status;
use ballista_core::serde::protobuf::scheduler_grpc_client::SchedulerGrpcClient;
use ballista_core::serde::protobuf::{
    GetJobStatusParams, RuntimeStatsReport, ShuffleWritePartition, TaskColumnStats,
    WindowStateReport,
};
use ballista_executor::execution_engine::{
    DefaultExecutionEngine, ExecutionEngine, QueryStageExecutor,
};
use datafusion::common::{DataFusionError, Result};
use datafusion::execution::TaskContext;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::metrics::MetricsSet;
use datafusion::prelude::SessionConfig;

/// Poll interval.
const TICK: Duration = Duration::from_secs(2);

/// Timeout of a request to the scheduler.
const REPLY: Duration = Duration::from_secs(10);

/// Ballista's engine, with tasks that end when their job is over.
pub(crate) struct Engine {
    /// Engine that runs the tasks.
    pub(crate) inner: DefaultExecutionEngine,
    /// Address of the scheduler in gRPC form.
    pub(crate) scheduler: String,
}

impl ExecutionEngine for Engine {
    fn create_query_stage_exec(
        &self,
        job_id: JobId,
        stage_id: usize,
        task_id: usize,
        partitions: Vec<usize>,
        plan: Arc<dyn ExecutionPlan>,
        work_dir: &str,
        config: &SessionConfig,
    ) -> Result<Arc<dyn QueryStageExecutor>> {
        let job = job_id.to_string();
        let inner = self.inner.create_query_stage_exec(
            job_id, stage_id, task_id, partitions, plan, work_dir, config,
        )?;
        Ok(Arc::new(Stage {
            inner,
            job,
            scheduler: self.scheduler.clone(),
        }))
    }
}

/// Part of a stage, with its job.
#[derive(Debug)]
struct Stage {
    inner: Arc<dyn QueryStageExecutor>,
    job: String,
    scheduler: String,
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

#[async_trait]
impl QueryStageExecutor for Stage {
    async fn execute_query_stage(
        &self,
        task_id: usize,
        context: Arc<TaskContext>,
    ) -> Result<Vec<ShuffleWritePartition>> {
        tokio::select! {
            done = self.inner.execute_query_stage(task_id, context) => done,
            () = self.over() => Err(DataFusionError::Execution(format!("job {} is over", self.job))),
        }
    }

    fn collect_plan_metrics(&self) -> Vec<MetricsSet> {
        self.inner.collect_plan_metrics()
    }

    fn collect_runtime_stats_reports(&self) -> Vec<RuntimeStatsReport> {
        self.inner.collect_runtime_stats_reports()
    }

    fn collect_window_state_reports(&self) -> Result<Vec<WindowStateReport>> {
        self.inner.collect_window_state_reports()
    }

    fn collect_column_stats(&self) -> Vec<TaskColumnStats> {
        self.inner.collect_column_stats()
    }
}

impl Stage {
    /// Returns when the scheduler reports that the job failed, was cancelled, or is unknown.
    /// Ignores missing responses.
    async fn over(&self) {
        loop {
            tokio::time::sleep(TICK).await;
            let status = async {
                let mut client = SchedulerGrpcClient::connect(self.scheduler.clone())
                    .await
                    .ok()?;
                let job_id = self.job.clone();
                let found = client.get_job_status(GetJobStatusParams { job_id }).await;
                Some(found.ok()?.into_inner().status)
            };
            let status = tokio::time::timeout(REPLY, status).await.ok().flatten();
            match status.map(|status| status.and_then(|status| status.status)) {
                None | Some(Some(Status::Queued(_) | Status::Running(_))) => {}
                Some(None | Some(Status::Failed(_) | Status::Successful(_))) => return,
            }
        }
    }
}
