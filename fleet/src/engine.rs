//! [`Fleet`]: the tables of a store, and the engine that queries them.

use std::sync::Arc;
#[cfg(feature = "ballista")]
use std::time::Duration;

use datafusion::arrow::array::RecordBatch;
use datafusion::common::DataFusionError;
use datafusion::datasource::file_format::parquet::ParquetFormat;
use datafusion::datasource::listing::{
    ListingOptions, ListingTable, ListingTableConfig, ListingTableUrl,
};
#[cfg(feature = "ballista")]
use datafusion::execution::SessionStateBuilder;
use datafusion::execution::runtime_env::{RuntimeEnv, RuntimeEnvBuilder};
use datafusion::prelude::{SessionConfig, SessionContext};
use rprof_fleet_table::Table;
use tokio::sync::Mutex;

use crate::files::{Files, Refused};
use crate::hours::Hours;
#[cfg(feature = "ballista")]
use crate::remote::{self, Failure};
use crate::store::{Registry, Store};
use crate::{FleetError, columns};

/// Time limit for a stage of a query, or for the next rows. Doubled for each retry.
#[cfg(feature = "ballista")]
const FIRST_PATIENCE: Duration = Duration::from_secs(45);

/// Maximum number of retries after a cluster failure.
#[cfg(feature = "ballista")]
const TRIES: u32 = 4;

/// Pause between retries. Their sum exceeds the time to detect a dead executor.
#[cfg(feature = "ballista")]
const PAUSE: Duration = Duration::from_secs(8);

/// Message of builds without Ballista.
#[cfg(not(feature = "ballista"))]
const NO_BALLISTA: &str = "built without the feature ballista";

/// Query engine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Engine {
    /// DataFusion, in-process.
    #[default]
    Embedded,
    /// Ballista, with the address of its scheduler: `df://HOST:PORT`.
    Ballista(String),
}

impl std::str::FromStr for Engine {
    type Err = String;

    fn from_str(text: &str) -> Result<Engine, String> {
        match text.split_once('=') {
            None if text == "embedded" => Ok(Engine::Embedded),
            Some(("ballista", address)) if address.starts_with("df://") => {
                Ok(Engine::Ballista(address.to_owned()))
            }
            _ => Err("an engine is `embedded`, or `ballista=df://HOST:PORT`".to_owned()),
        }
    }
}

/// Tables of a store in some hours, with an engine.
pub struct Fleet {
    /// Location of the tables.
    pub store: Store,
    hours: Hours,
    engine: Engine,
    session: Mutex<Session>,
}

struct Session {
    context: SessionContext,
    files: Vec<(Table, Files)>,
    /// True after all files were read completely once.
    is_checked: bool,
}

/// Views of the tables in DataFusion's dialect, deduplicated over hosts and hours. `samples` and
/// `hosts` also have the partition columns.
pub const VIEWS: [(&str, &str); 6] = [
    (
        "samples",
        "SELECT *, to_char(window_start, '%Y-%m-%d') AS \"date\", to_char(window_start, '%H') AS \"hour\" FROM samples_files",
    ),
    (
        "hosts",
        "SELECT *, to_char(window_start, '%Y-%m-%d') AS \"date\", to_char(window_start, '%H') AS \"hour\" FROM hosts_files",
    ),
    (
        "stacks",
        "SELECT stack_id, first_value(location_ids) AS location_ids FROM stacks_files GROUP BY stack_id",
    ),
    (
        "locations",
        "SELECT location_id, first_value(image_id) AS image_id, first_value(address) AS address FROM locations_files GROUP BY location_id",
    ),
    (
        "frames",
        "SELECT location_id, max(symbols_rank) AS symbols_rank, first_value(lines ORDER BY symbols_rank DESC, lines[1]['function'], lines[1]['line'], lines[1]['file']) AS lines \
         FROM frames_files GROUP BY location_id",
    ),
    (
        "images",
        "SELECT image_id, max(build_id) AS build_id, min(path) AS path, min(kind) AS kind, max(symbols) AS symbols \
         FROM images_files GROUP BY image_id",
    ),
];

impl Fleet {
    /// Lists the files of all tables, and opens the engine.
    ///
    /// # Errors
    /// The store or the engine fails, or no table exists.
    pub async fn open(store: Store, hours: Hours, engine: Engine) -> Result<Fleet, FleetError> {
        let mut files = Vec::new();
        for table in Table::ALL {
            files.push((table, Files::of(&store, table, hours).await?));
        }
        if files
            .iter()
            .all(|(_, files)| files.live.is_empty() && files.refused.is_empty())
        {
            return Err(FleetError::Nothing(format!(
                "{} has no tables of that time: `rprof-agent` and `rprof-agent export` write them",
                store.base()
            )));
        }
        let context = register(&store, &engine, &files).await?;
        Ok(Fleet {
            store,
            hours,
            engine,
            session: Mutex::new(Session {
                context,
                files,
                is_checked: false,
            }),
        })
    }

    /// Returns the time range of queries.
    pub fn hours(&self) -> Hours {
        self.hours
    }

    /// Returns the files skipped so far.
    pub async fn refused(&self) -> Vec<Refused> {
        let session = self.session.lock().await;
        let all = session.files.iter().flat_map(|(_, files)| &files.refused);
        all.cloned().collect()
    }

    /// Returns the files of a table.
    pub async fn files(&self, table: Table) -> Files {
        let session = self.session.lock().await;
        let mut found = session.files.iter().filter(|(of, _)| *of == table);
        found
            .next()
            .map(|(_, files)| files.clone())
            .unwrap_or_default()
    }

    /// Runs an SQL query and collects all rows. If a file is damaged, skips it from then on and
    /// retries. Also retries if a cluster fails or makes no progress.
    ///
    /// # Errors
    /// The query is invalid, or the engine fails.
    pub async fn ask(&self, sql: &str) -> Result<Vec<RecordBatch>, FleetError> {
        match &self.engine {
            Engine::Embedded => {
                let context = self.session.lock().await.context.clone();
                let failure = match context.sql(sql).await?.collect().await {
                    Ok(batches) => return Ok(batches),
                    Err(error) => error,
                };
                match self.leave_out_damaged().await? {
                    true => {
                        let context = self.session.lock().await.context.clone();
                        Ok(context.sql(sql).await?.collect().await?)
                    }
                    false => Err(failure.into()),
                }
            }
            #[cfg(feature = "ballista")]
            Engine::Ballista(scheduler) => self.ask_cluster(scheduler, sql).await,
            #[cfg(not(feature = "ballista"))]
            Engine::Ballista(_) => Err(FleetError::Usage(NO_BALLISTA.to_owned())),
        }
    }

    /// Runs a query on a cluster, with retries. The loss of an executor fails the query, but
    /// queries change nothing, so a retry is safe.
    #[cfg(feature = "ballista")]
    async fn ask_cluster(
        &self,
        scheduler: &str,
        sql: &str,
    ) -> Result<Vec<RecordBatch>, FleetError> {
        let mut attempt = 0;
        let mut contact = remote::Scheduler::new(scheduler);
        loop {
            let patience = FIRST_PATIENCE * (1 << attempt);
            let context = self.session.lock().await.context.clone();
            let frame = context.sql(sql).await?;
            let failure = match remote::collect(frame, &mut contact, patience).await {
                Ok(batches) => return Ok(batches),
                Err(failure) if !failure.may_pass() => {
                    return Err(DataFusionError::from(failure).into());
                }
                Err(failure) => failure,
            };
            // Only a reported failure can mean a damaged file. Silence means a cluster failure.
            let is_reported = matches!(failure, Failure::Reported(_));
            let check = async { Ok(is_reported && self.leave_out_damaged().await?) };
            let (any_damaged, ()) = tokio::join!(check, tokio::time::sleep(PAUSE));
            let any_damaged: Result<bool, FleetError> = any_damaged;
            if any_damaged? {
                continue;
            }
            if attempt == TRIES {
                return Err(DataFusionError::from(failure).into());
            }
            attempt += 1;
            // Uses a new session: the old one may wait for a lost executor.
            let mut session = self.session.lock().await;
            let renewed = register(&self.store, &self.engine, &session.files);
            let renewed = tokio::time::timeout(FIRST_PATIENCE, renewed).await;
            session.context = renewed
                .map_err(|_| FleetError::Usage(format!("{scheduler} does not answer")))??;
        }
    }

    /// Reads all files completely, once, and skips unreadable ones. Returns whether there are any.
    ///
    /// # Errors
    /// The engine fails.
    pub async fn leave_out_damaged(&self) -> Result<bool, FleetError> {
        let mut session = self.session.lock().await;
        if std::mem::replace(&mut session.is_checked, true) {
            return Ok(false);
        }
        let mut any = false;
        for (_, files) in &mut session.files {
            any |= !files.refuse_damaged(&self.store).await.is_empty();
        }
        if any {
            session.context = register(&self.store, &self.engine, &session.files).await?;
        }
        Ok(any)
    }
}

/// Creates a runtime environment that opens stores by URL.
///
/// # Errors
/// None in practice.
pub fn runtime() -> Result<Arc<RuntimeEnv>, DataFusionError> {
    RuntimeEnvBuilder::new()
        .with_object_store_registry(Arc::new(Registry::default()))
        .build_arc()
}

async fn context(engine: &Engine) -> Result<SessionContext, FleetError> {
    match engine {
        Engine::Embedded => {
            let config = SessionConfig::new().with_information_schema(true);
            Ok(SessionContext::new_with_config_rt(config, runtime()?))
        }
        #[cfg(feature = "ballista")]
        Engine::Ballista(address) => {
            use ballista::prelude::{SessionConfigExt, SessionContextExt};
            use ballista_core::config::BALLISTA_CLIENT_PULL;
            let config = SessionConfig::new_with_ballista()
                .with_information_schema(true)
                // The adaptive planner of Ballista 55 hangs if an executor is lost: its stages are
                // gone, and their tasks never end.
                .with_ballista_adaptive_query_planner(false)
                // With this setting a job has its id when it is submitted, not only when it runs,
                // so that a queued job can be cancelled.
                .set_str(BALLISTA_CLIENT_PULL, "true");
            let state = SessionStateBuilder::new()
                .with_config(config)
                .with_runtime_env(runtime()?)
                .with_default_features()
                .build();
            Ok(SessionContext::remote_with_state(address, state).await?)
        }
        #[cfg(not(feature = "ballista"))]
        Engine::Ballista(_) => Err(FleetError::Usage(NO_BALLISTA.to_owned())),
    }
}

/// Opens the engine, with the current files as tables `TABLE_files`, and the views over them.
async fn register(
    store: &Store,
    engine: &Engine,
    files: &[(Table, Files)],
) -> Result<SessionContext, FleetError> {
    let context = context(engine).await?;
    for (table, files) in files {
        let name = format!("{}_files", table.name());
        let schema = columns::read(*table)?;
        let urls: Result<Vec<ListingTableUrl>, FleetError> = (files.live.iter())
            .map(|file| Ok(ListingTableUrl::parse(store.url(&file.path)?)?))
            .collect();
        let urls = urls?;
        if urls.is_empty() {
            let empty = datafusion::datasource::empty::EmptyTable::new(schema);
            context.register_table(&name, Arc::new(empty))?;
            continue;
        }
        let options =
            ListingOptions::new(Arc::new(ParquetFormat::default())).with_file_extension(".parquet");
        let config = ListingTableConfig::new_with_multi_paths(urls)
            .with_listing_options(options)
            .with_schema(schema);
        context.register_table(&name, Arc::new(ListingTable::try_new(config)?))?;
    }
    for (name, query) in VIEWS {
        context
            .sql(&format!("CREATE VIEW {name} AS {query}"))
            .await?;
    }
    Ok(context)
}
