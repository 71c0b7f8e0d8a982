//! [`Pods`]: namespaces and names of pods, from the kubelet's folders.

use std::fs;
use std::path::{Path, PathBuf};

use rustc_hash::FxHashMap;

/// A node runs some hundreds of pods.
const LIMIT: usize = 10_000;

/// Namespace and name of a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodName {
    /// Kubernetes namespace of the pod.
    pub namespace: String,
    /// Name of the pod within its namespace.
    pub name: String,
}

/// Cache of pod names by uid. A kubelet creates a folder `NAMESPACE_NAME_UID` for each pod, so its
/// API is not needed.
#[derive(Debug)]
pub struct Pods {
    folder: PathBuf,
    known: FxHashMap<String, PodName>,
    is_fresh: bool,
}

impl Pods {
    /// Creates an empty cache.
    pub fn new(folder: &Path) -> Pods {
        Pods {
            folder: folder.to_owned(),
            known: FxHashMap::default(),
            is_fresh: false,
        }
    }

    /// Allows one scan for unknown pods. Call once a window.
    pub fn refresh(&mut self) {
        self.is_fresh = false;
    }

    /// Returns the name of the pod with this uid.
    pub fn find(&mut self, uid: &str) -> Option<PodName> {
        if !self.known.contains_key(uid) && !std::mem::replace(&mut self.is_fresh, true) {
            self.read();
        }
        self.known.get(uid).cloned()
    }

    fn read(&mut self) {
        self.known.clear();
        let entries = fs::read_dir(&self.folder).into_iter().flatten().flatten();
        for entry in entries.take(LIMIT) {
            let name = entry.file_name();
            let name = name.to_string_lossy();
            // Namespaces and pod names cannot contain `_`.
            if let [namespace, name, uid] = name.split('_').collect::<Vec<_>>()[..] {
                let pod = PodName {
                    namespace: namespace.to_owned(),
                    name: name.to_owned(),
                };
                self.known.insert(uid.to_owned(), pod);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pods_are_found_in_the_folders_of_a_kubelet() {
        let folder = tempfile::tempdir().unwrap();
        let uid = "7c1b9c3e-5d0a-4f0e-9d53-0a1f2b3c4d5e";
        let mut pods = Pods::new(folder.path());
        assert_eq!(pods.find(uid), None);
        fs::create_dir(folder.path().join(format!("shop_cart-0_{uid}"))).unwrap();
        fs::create_dir(folder.path().join("else")).unwrap();
        assert_eq!(pods.find(uid), None);
        pods.refresh();
        let found = pods.find(uid).unwrap();
        assert_eq!((&*found.namespace, &*found.name), ("shop", "cart-0"));
        assert_eq!(Pods::new(Path::new("/no/such")).find(uid), None);
    }
}
