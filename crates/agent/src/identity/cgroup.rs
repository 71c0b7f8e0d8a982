//! [`CgroupFacts`]: container, pod and unit of a cgroup, from its path.

/// Prefixes of the systemd driver's scope names.
const RUNTIMES: [&str; 7] = [
    "docker-",
    "cri-containerd-",
    "crio-",
    "cri-o-",
    "libpod-",
    "podman-",
    "containerd-",
];

/// Container, pod and unit in the path of a cgroup.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct CgroupFacts {
    /// Id of the container: 64 hexadecimal digits, or 32 and a number (Fargate).
    pub container_id: Option<String>,
    /// Uid of the pod, with `-` between its parts.
    pub pod: Option<String>,
    /// Systemd service, such as `nginx.service`. For sessions and units of a user,
    /// `user@UID.service`.
    pub unit: Option<String>,
}

impl CgroupFacts {
    /// Parses a path, `/a/b`, from the outermost part inward. Only names that root or a container
    /// runtime chose are trusted: a delegated cgroup's owner names its children. Therefore
    ///
    /// - everything in a user's slice is `user@UID.service`, regardless of inner units and
    ///   containers;
    /// - the outermost service is the unit;
    /// - the outermost container is the container, and its pod must be outside of it.
    ///
    /// ```
    /// use rprof_agent::identity::CgroupFacts;
    ///
    /// let facts = CgroupFacts::of_path("/system.slice/nginx.service");
    /// assert_eq!(facts.unit.as_deref(), Some("nginx.service"));
    /// let facts = CgroupFacts::of_path("/user.slice/user-7.slice/user@7.service/nginx.service");
    /// assert_eq!(facts.unit.as_deref(), Some("user@7.service"));
    /// ```
    pub fn of_path(path: &str) -> CgroupFacts {
        let mut facts = CgroupFacts::default();
        for part in path.split('/') {
            if let Some(uid) = user(part).filter(|_| facts.is_empty()) {
                facts.unit = Some(format!("user@{uid}.service"));
                break;
            }
            if facts.pod.is_none() {
                facts.pod = pod_uid(part);
            }
            facts.container_id = container_id(part);
            if facts.container_id.is_some() {
                break;
            }
            if facts.unit.is_none() && part.ends_with(".service") {
                facts.unit = Some(part.to_owned());
            }
        }
        facts
    }

    /// Parses `/proc/PID/cgroup` (cgroups(7)). Returns the facts and path of the hierarchy with the
    /// most facts, preferably version 2.
    pub fn of_file(text: &str) -> (CgroupFacts, String) {
        let paths = text.lines().filter_map(|line| line.splitn(3, ':').nth(2));
        let mut paths: Vec<&str> = paths.collect();
        // The version 2 line, `0::`, comes last.
        paths.reverse();
        let known = paths.iter().map(|path| (CgroupFacts::of_path(path), *path));
        let weight = |facts: &CgroupFacts| {
            4 * u8::from(facts.container_id.is_some())
                + 2 * u8::from(facts.pod.is_some())
                + u8::from(facts.unit.is_some())
        };
        let mut best = (CgroupFacts::default(), "/");
        for (facts, path) in known {
            if weight(&facts) > weight(&best.0) || best.1 == "/" {
                best = (facts, path);
            }
        }
        (best.0, best.1.to_owned())
    }

    /// Returns true if the cgroup is in a user's slice. That user also controls names and
    /// environments.
    pub fn is_of_user(&self) -> bool {
        let unit = self.unit.as_deref();
        unit.is_some_and(|unit| user(unit).is_some())
    }

    /// Returns true if the path has no facts.
    pub fn is_empty(&self) -> bool {
        *self == CgroupFacts::default()
    }
}

/// Parses a part such as `docker-ID.scope`, `ID`, or containerd's `SLICE:cri-containerd:ID`.
fn container_id(part: &str) -> Option<String> {
    let name = part.strip_suffix(".scope").unwrap_or(part);
    let name = name.rsplit(':').next().unwrap_or(name);
    // Monitors beside the container: `crio-conmon-ID`, `libpod-conmon-ID`.
    let name = RUNTIMES
        .iter()
        .find_map(|runtime| name.strip_prefix(runtime))
        .unwrap_or(name);
    let is_hex = |text: &str| text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
    let is_fargate = || {
        let (id, number) = name.split_once('-')?;
        let is_number = !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit());
        (id.len() == 32 && is_hex(id) && is_number).then_some(())
    };
    let is_id = name.len() == 64 && is_hex(name) || is_fargate().is_some();
    is_id.then(|| name.to_owned())
}

/// Parses a part such as `pod1234…` or `kubepods-burstable-pod1234_….slice`: a UUID, or 32 digits
/// for static pods.
fn pod_uid(part: &str) -> Option<String> {
    let part = part.split(':').next().unwrap_or(part);
    let name = part.strip_suffix(".slice").unwrap_or(part);
    let begin = match name.strip_prefix("pod") {
        Some(uid) => uid,
        None if name.starts_with("kubepods") => name.rsplit_once("-pod")?.1,
        None => return None,
    };
    let uid = begin.replace('_', "-");
    let digits = uid.bytes().filter(u8::is_ascii_hexdigit).count();
    let dashes = uid.bytes().filter(|b| *b == b'-').count();
    let is_uid = digits == 32 && (uid.len() == 36 && dashes == 4 || uid.len() == 32);
    is_uid.then_some(uid)
}

/// Parses `user-1000.slice` or `user@1000.service` (systemd.special(7), user@.service(5)).
fn user(part: &str) -> Option<&str> {
    let slice = || part.strip_prefix("user-")?.strip_suffix(".slice");
    let manager = || part.strip_prefix("user@")?.strip_suffix(".service");
    let uid = slice().or_else(manager)?;
    (!uid.is_empty() && uid.bytes().all(|b| b.is_ascii_digit())).then_some(uid)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "3f4e5d6c7b8a90123f4e5d6c7b8a90123f4e5d6c7b8a90123f4e5d6c7b8a9012";
    const UID: &str = "7c1b9c3e-5d0a-4f0e-9d53-0a1f2b3c4d5e";

    fn of(path: &str) -> (Option<String>, Option<String>, Option<String>) {
        let facts = CgroupFacts::of_path(path);
        (facts.container_id, facts.pod, facts.unit)
    }

    /// Paths of the runtimes' documentation, and of kubernetes/kubernetes
    /// `pkg/kubelet/cm/cgroup_manager_linux.go`.
    #[test]
    fn runtimes_are_known_by_their_paths() {
        let id = Some(ID.to_owned());
        let uid = Some(UID.to_owned());
        let flat = UID.replace('-', "_");
        for path in [
            format!("/docker/{ID}"),
            format!("/system.slice/docker-{ID}.scope"),
            format!("/machine.slice/libpod-{ID}.scope"),
            format!("/machine.slice/libpod-{ID}.scope/container"),
            format!("/ecs/0123456789abcdef0123456789abcdef/{ID}"),
            format!("/default/{ID}"),
            format!("/../../docker/{ID}"),
        ] {
            assert_eq!(of(&path), (id.clone(), None, None), "{path}");
        }
        for path in [
            format!("/kubepods/burstable/pod{UID}/{ID}"),
            format!(
                "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{flat}.slice/cri-containerd-{ID}.scope"
            ),
            format!("/kubepods.slice/kubepods-pod{flat}.slice/crio-{ID}.scope"),
            format!("/kubepods.slice/kubepods-pod{flat}.slice/crio-{ID}.scope/container"),
            format!(
                "/system.slice/containerd.service/kubepods-burstable-pod{flat}.slice:cri-containerd:{ID}"
            ),
        ] {
            let (container, pod, _) = of(&path);
            assert_eq!((container, pod), (id.clone(), uid.clone()), "{path}");
        }
        let fargate = "0123456789abcdef0123456789abcdef-1234567890";
        assert_eq!(of(&format!("/ecs/x/{fargate}")).0.as_deref(), Some(fargate));
        // With the cgroupfs driver, containers are below their runtime's cgroup.
        let in_service = of(&format!("/system.slice/docker.service/docker/{ID}"));
        assert_eq!(in_service, (id, None, Some("docker.service".into())));
    }

    #[test]
    fn names_in_a_user_slice_are_that_users() {
        let flat = UID.replace('-', "_");
        let user = "/user.slice/user-1000.slice";
        for path in [
            user.to_owned(),
            format!("{user}/session-3.scope"),
            format!("{user}/session-3.scope/nginx.service"),
            format!("{user}/user@1000.service/init.scope"),
            format!("{user}/user@1000.service/app.slice/nginx.service"),
            format!("{user}/user@1000.service/system.slice/nginx.service"),
            format!("{user}/user@1000.service/user-0.slice/user@0.service"),
            format!("{user}/user@1000.service/user.slice/libpod-{ID}.scope/container"),
            format!("{user}/user@1000.service/app.slice/docker-{ID}.scope"),
            format!("{user}/user@1000.service/docker/{ID}"),
            format!("{user}/user@1000.service/kubepods/burstable/pod{UID}/{ID}"),
            format!(
                "{user}/user@1000.service/kubepods.slice/kubepods-pod{flat}.slice/crio-{ID}.scope"
            ),
            "/user@1000.service/app.slice/nginx.service".to_owned(),
        ] {
            let user = Some("user@1000.service".to_owned());
            assert_eq!(of(&path), (None, None, user), "{path}");
            assert!(CgroupFacts::of_path(&path).is_of_user(), "{path}");
        }
    }

    #[test]
    fn names_in_a_delegated_group_are_not_believed() {
        let other = ID.replace('3', "4");
        let unit = |name: &str| (None, None, Some(name.to_owned()));
        let container = || (Some(ID.to_owned()), None, None);
        for (path, facts) in [
            ("/system.slice/a.service/nginx.service", unit("a.service")),
            (
                "/system.slice/a.service/system.slice/nginx.service",
                unit("a.service"),
            ),
            (
                "/system.slice/a.service/user-7.slice/user@7.service",
                unit("a.service"),
            ),
            (
                "/machine.slice/systemd-nspawn@x.service/payload/nginx.service",
                unit("systemd-nspawn@x.service"),
            ),
            (
                &format!("/system.slice/docker-{ID}.scope/system.slice/nginx.service"),
                container(),
            ),
            (&format!("/docker/{ID}/docker/{other}"), container()),
            (
                &format!("/docker/{ID}/kubepods/pod{UID}/{other}"),
                container(),
            ),
            (
                &format!("/docker/{ID}/user.slice/user-7.slice"),
                container(),
            ),
        ] {
            assert_eq!(of(path), facts, "{path}");
            assert!(!CgroupFacts::of_path(path).is_of_user(), "{path}");
        }
    }

    #[test]
    fn what_is_no_container_is_none() {
        for path in [
            "/",
            "/init.scope",
            "/user.slice",
            "/user.slice/user-x.slice",
            &format!("/machine.slice/libpod-conmon-{ID}.scope"),
            &format!("/system.slice/crio-conmon-{ID}.scope"),
            "/docker/buildkit",
            "/kubepods/podinfo",
            &format!("/{}", "g".repeat(64)),
        ] {
            assert_eq!(of(path), (None, None, None), "{path}");
        }
        let unit = |path: &str| of(path).2;
        assert_eq!(
            unit("/system.slice/nginx.service").as_deref(),
            Some("nginx.service")
        );
        assert_eq!(
            unit("/system.slice/system-getty.slice/getty@tty1.service").as_deref(),
            Some("getty@tty1.service")
        );
        assert_eq!(
            unit("/custom.slice/custom-a.slice/a.service").as_deref(),
            Some("a.service")
        );
    }

    #[test]
    fn of_several_hierarchies_the_one_that_tells_most_counts() {
        let text = format!("9:name=systemd:/docker/{ID}\n4:memory:/docker/{ID}\n0::/\n");
        assert_eq!(
            CgroupFacts::of_file(&text).0.container_id.as_deref(),
            Some(ID)
        );
        let text = "1:name=systemd:/system.slice/a.service\n0::/system.slice/b.service\n";
        let (facts, path) = CgroupFacts::of_file(text);
        assert_eq!(facts.unit.as_deref(), Some("b.service"));
        assert_eq!(path, "/system.slice/b.service");
        assert_eq!(
            CgroupFacts::of_file("0::/\n"),
            (CgroupFacts::default(), "/".to_owned())
        );
        assert_eq!(
            CgroupFacts::of_file("garbage"),
            (CgroupFacts::default(), "/".to_owned())
        );
    }
}
