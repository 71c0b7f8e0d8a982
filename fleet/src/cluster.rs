//! Ballista's scheduler and executors, which open stores as this program does.

use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::sync::Arc;

use ballista_core::ConfigProducer;
use ballista_core::config::TaskSchedulingPolicy;
use ballista_core::extension::{SessionConfigExt, ballista_scalar_functions};
use ballista_core::registry::BallistaFunctionRegistry;
use ballista_executor::execution_engine::DefaultExecutionEngine;
use ballista_executor::executor_process::{ExecutorProcessConfig, start_executor_process};
use ballista_scheduler::cluster::{BallistaCluster, ClusterStateEvent};
use ballista_scheduler::config::SchedulerConfig;
use ballista_scheduler::scheduler_process::{create_scheduler, start_grpc_service};
use ballista_scheduler::scheduler_server::SchedulerServer;
use datafusion::execution::SessionStateBuilder;
use datafusion::prelude::SessionConfig;
use datafusion_proto::protobuf::{LogicalPlanNode, PhysicalPlanNode};
use futures::StreamExt;

use crate::FleetError;
use crate::engine::runtime;
use crate::tasks::Engine;

/// Interval of executor heartbeats, in seconds.
const HEARTBEAT: u64 = 5;

/// Seconds without a heartbeat before an executor counts as dead and gets no more tasks.
const DEAD_AFTER: u64 = 20;

/// Number of failures of a task or stage after which its job fails. After the loss of an executor,
/// Ballista 55 was seen to repair a job with wrong rows. So jobs are never repaired; the query is
/// retried instead.
const FAILURES: usize = 1;

/// Executors pull their tasks. With this policy of Ballista 55, a job was seen to fail when an
/// executor dies; with the other policy it only hangs.
const POLICY: TaskSchedulingPolicy = TaskSchedulingPolicy::PullStaged;

fn failed(error: impl std::fmt::Display) -> FleetError {
    FleetError::Usage(error.to_string())
}

fn config() -> ConfigProducer {
    Arc::new(|| SessionConfig::new_with_ballista().with_information_schema(true))
}

/// Returns the functions that tasks may call: all that the scheduler may plan. Executors of
/// Ballista 55 lack the list functions by default.
fn functions() -> Arc<BallistaFunctionRegistry> {
    let scalar = ballista_scalar_functions().into_iter();
    Arc::new(BallistaFunctionRegistry {
        scalar_functions: scalar
            .map(|function| (function.name().to_owned(), function))
            .collect(),
        ..BallistaFunctionRegistry::default()
    })
}

/// Runs a scheduler until it is stopped.
///
/// # Errors
/// The address cannot be bound.
pub async fn scheduler(host: &str, port: u16) -> Result<(), FleetError> {
    let config = SchedulerConfig {
        bind_host: host.to_owned(),
        external_host: host.to_owned(),
        bind_port: port,
        scheduling_policy: POLICY,
        executor_timeout_seconds: DEAD_AFTER,
        expire_dead_executor_interval_seconds: HEARTBEAT,
        task_max_failures: FAILURES,
        stage_max_failures: FAILURES,
        no_executors_grace_period_seconds: DEAD_AFTER,
        override_config_producer: Some(config()),
        override_session_builder: Some(Arc::new(|config: SessionConfig| {
            Ok(SessionStateBuilder::new()
                .with_config(config)
                .with_runtime_env(runtime()?)
                .with_default_features()
                .build())
        })),
        ..SchedulerConfig::default()
    };
    let address = (host, port).to_socket_addrs().map_err(failed)?.next();
    let address: SocketAddr = address.ok_or_else(|| failed(format!("{host} has no address")))?;
    let cluster = BallistaCluster::new_from_config(&config)
        .await
        .map_err(failed)?;
    let server = create_scheduler(cluster, Arc::new(config)).await;
    let server = server.map_err(failed)?;
    tokio::spawn(cancel_on_loss(server.clone()));
    start_grpc_service(address, server).await.map_err(failed)
}

/// Cancels all running jobs when an executor is lost, so that no result contains recomputed parts.
async fn cancel_on_loss(server: SchedulerServer<LogicalPlanNode, PhysicalPlanNode>) {
    let Ok(mut events) = server.cluster_state_events().await else {
        return;
    };
    while let Some(event) = events.next().await {
        if matches!(event, ClusterStateEvent::RemovedExecutor { .. }) {
            for job in server.state.task_manager.get_running_job_cache().keys() {
                // This fails if the scheduler is ending.
                server.cancel_job(job.clone()).await.ok();
            }
        }
    }
}

/// Settings of an executor.
#[derive(Clone, Debug)]
pub struct Executor {
    /// Address of the scheduler.
    pub scheduler: (String, u16),
    /// Address where others reach it.
    pub host: String,
    /// Port for results. Tasks use the next port.
    pub port: u16,
    /// Maximum number of concurrent tasks.
    pub tasks: usize,
    /// Folder of intermediate results. `None` uses a temporary folder.
    pub work: Option<PathBuf>,
}

/// Runs an executor until it is stopped.
///
/// # Errors
/// The scheduler does not respond, or the address cannot be bound.
pub async fn executor(settings: Executor) -> Result<(), FleetError> {
    let (host, scheduler_port) = &settings.scheduler;
    let engine = Engine {
        inner: DefaultExecutionEngine::new(),
        scheduler: format!("http://{host}:{scheduler_port}"),
    };
    let config = ExecutorProcessConfig {
        override_execution_engine: Some(Arc::new(engine)),
        bind_host: settings.host.clone(),
        external_host: Some(settings.host),
        port: settings.port,
        grpc_port: settings.port + 1,
        scheduler_host: settings.scheduler.0,
        scheduler_port: settings.scheduler.1,
        scheduler_connect_timeout_seconds: 30,
        vcores: settings.tasks,
        task_scheduling_policy: POLICY,
        work_dir: settings
            .work
            .map(|path| path.to_string_lossy().into_owned()),
        executor_heartbeat_interval_seconds: HEARTBEAT,
        override_config_producer: Some(config()),
        override_function_registry: Some(functions()),
        override_runtime_producer: Some(Arc::new(|_: &SessionConfig| runtime())),
        ..ExecutorProcessConfig::default()
    };
    start_executor_process(Arc::new(config))
        .await
        .map_err(failed)
}
