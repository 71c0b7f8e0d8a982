//! [`Store`]: the folder or bucket of a fleet's files.

use std::sync::Arc;

use datafusion::common::DataFusionError;
use datafusion::execution::object_store::{DefaultObjectStoreRegistry, ObjectStoreRegistry};
use futures::StreamExt;
use object_store::local::LocalFileSystem;
use object_store::path::Path;
use object_store::{ObjectMeta, ObjectStore, ObjectStoreExt, PutPayload};
use url::Url;

use crate::FleetError;

/// Folder, or prefix in a bucket, with the tables.
#[derive(Clone, Debug)]
pub struct Store {
    /// URL of the tables, with a slash at its end.
    base: Url,
    prefix: Path,
    objects: Arc<dyn ObjectStore>,
}

impl Store {
    /// Opens a folder, or `s3://BUCKET/PREFIX`. Region, endpoint and credentials of a bucket come
    /// from the environment variables of Amazon's tools, such as `AWS_ACCESS_KEY_ID` and
    /// `AWS_ENDPOINT_URL`.
    ///
    /// # Errors
    /// The folder does not exist, or the bucket URL is invalid.
    pub fn open(data: &str) -> Result<Store, FleetError> {
        let refused = |why: String| FleetError::Data {
            data: data.to_owned(),
            why,
        };
        if data.contains("://") {
            let mut base = Url::parse(data).map_err(|error| refused(error.to_string()))?;
            if !base.path().ends_with('/') {
                base.set_path(&format!("{}/", base.path()));
            }
            let objects = remote(&base).map_err(|error| refused(error.to_string()))?;
            let prefix =
                Path::from_url_path(base.path()).map_err(|error| refused(error.to_string()))?;
            return Ok(Store {
                base,
                prefix,
                objects,
            });
        }
        let folder = std::fs::canonicalize(data).map_err(|error| refused(error.to_string()))?;
        let base = Url::from_directory_path(&folder)
            .map_err(|()| refused("the path is not absolute".to_owned()))?;
        if !folder.is_dir() {
            return Err(refused("it is no folder".to_owned()));
        }
        Ok(Store {
            base,
            prefix: Path::from_absolute_path(&folder)
                .map_err(|error| refused(error.to_string()))?,
            objects: Arc::new(LocalFileSystem::new()),
        })
    }

    /// Lists the objects below a folder, sorted by path, and messages about objects with invalid
    /// paths.
    ///
    /// # Errors
    /// The store fails.
    pub async fn list(&self, folder: &str) -> Result<(Vec<ObjectMeta>, Vec<String>), FleetError> {
        let below = self.location(folder);
        let (mut found, mut impossible) = (Vec::new(), Vec::new());
        let mut listed = self.objects.list(Some(&below));
        while let Some(object) = listed.next().await {
            match object {
                Ok(object) => found.push(object),
                Err(error @ object_store::Error::InvalidPath { .. }) => {
                    impossible.push(error.to_string());
                }
                Err(error) => return Err(error.into()),
            }
        }
        found.sort_by(|a, b| a.location.cmp(&b.location));
        Ok((found, impossible))
    }

    /// Writes an object atomically.
    ///
    /// # Errors
    /// The store refuses it.
    pub async fn put(&self, path: &str, bytes: Vec<u8>) -> Result<(), FleetError> {
        let place = self.location(path);
        self.objects.put(&place, PutPayload::from(bytes)).await?;
        Ok(())
    }

    /// Deletes an object. A missing object is no error.
    ///
    /// # Errors
    /// The store refuses the deletion.
    pub async fn delete(&self, path: &str) -> Result<(), FleetError> {
        match self.objects.delete(&self.location(path)).await {
            Ok(()) | Err(object_store::Error::NotFound { .. }) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Returns the path of an object relative to the tables' folder.
    pub fn relative(&self, location: &Path) -> String {
        let rest: Vec<_> = match location.prefix_match(&self.prefix) {
            Some(parts) => parts.map(|part| part.as_ref().to_owned()).collect(),
            None => return location.to_string(),
        };
        rest.join("/")
    }

    /// Returns the URL of an object, for engines.
    pub fn url(&self, path: &str) -> Result<Url, FleetError> {
        self.base.join(path).map_err(|error| FleetError::Data {
            data: path.to_owned(),
            why: error.to_string(),
        })
    }

    /// Returns the object store, for Parquet readers.
    pub fn objects(&self) -> Arc<dyn ObjectStore> {
        self.objects.clone()
    }

    /// Returns the URL of the tables.
    pub fn base(&self) -> &Url {
        &self.base
    }

    /// Returns the location in the store of a path relative to the tables' folder.
    pub fn location(&self, path: &str) -> Path {
        path.split('/')
            .filter(|part| !part.is_empty())
            .fold(self.prefix.clone(), Path::join)
    }
}

#[cfg(feature = "s3")]
fn remote(url: &Url) -> Result<Arc<dyn ObjectStore>, DataFusionError> {
    use object_store::aws::AmazonS3Builder;
    if url.scheme() != "s3" {
        return Err(DataFusionError::Configuration(format!(
            "{}:// is no kind of store that is known here: a folder, or s3://BUCKET/PREFIX",
            url.scheme()
        )));
    }
    let mut builder = AmazonS3Builder::from_env().with_url(url.as_str());
    if std::env::var("AWS_ENDPOINT_URL").is_ok_and(|endpoint| endpoint.starts_with("http://")) {
        builder = builder.with_allow_http(true);
    }
    Ok(Arc::new(builder.build()?))
}

#[cfg(not(feature = "s3"))]
fn remote(url: &Url) -> Result<Arc<dyn ObjectStore>, DataFusionError> {
    Err(DataFusionError::Configuration(format!(
        "{url}: built without the feature s3"
    )))
}

/// Opens stores by URL. Schedulers and executors receive only the URL of a bucket.
#[derive(Debug, Default)]
pub struct Registry {
    known: DefaultObjectStoreRegistry,
}

impl ObjectStoreRegistry for Registry {
    fn register_store(
        &self,
        url: &Url,
        store: Arc<dyn ObjectStore>,
    ) -> Option<Arc<dyn ObjectStore>> {
        self.known.register_store(url, store)
    }

    fn get_store(&self, url: &Url) -> Result<Arc<dyn ObjectStore>, DataFusionError> {
        self.known.get_store(url).or_else(|_| {
            let store = remote(url)?;
            self.known.register_store(url, store.clone());
            Ok(store)
        })
    }
}
