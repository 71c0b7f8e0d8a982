//! [`Rule`], and [`identity_of`]: maps facts to a service.

use rprof_export::CleanName;
use rprof_fleet_table::rows::Identity;
use rprof_profile::pattern::matches_name;
use serde::Deserialize;

use super::{Facts, PodName};

const KERNEL: &str = "kernel";

/// Rule that names a service. Patterns are globs with `*` and `?`. All must match.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Rule {
    /// Path of the program, or its file name.
    pub exe: Option<String>,
    /// Unit of systemd, with or without `.service`.
    pub unit: Option<String>,
    /// Id of the container.
    pub container: Option<String>,
    /// Name of the process.
    pub comm: Option<String>,
    /// Name of the pod.
    pub pod: Option<String>,
    /// Namespace of the pod.
    pub namespace: Option<String>,
    /// Name of the service.
    pub service: String,
    /// Version of the service. Default: the environment's version, or the build-id.
    pub version: Option<String>,
}

impl Rule {
    /// Returns true if the rule has no pattern.
    pub fn is_empty(&self) -> bool {
        let patterns = [
            &self.exe,
            &self.unit,
            &self.container,
            &self.comm,
            &self.pod,
            &self.namespace,
        ];
        patterns.into_iter().all(Option::is_none)
    }

    fn matches(&self, facts: &Facts, comm: &str, pod: Option<&PodName>) -> bool {
        let matches = |pattern: &Option<String>, names: [Option<&str>; 2]| match pattern {
            None => true,
            Some(pattern) => names
                .into_iter()
                .flatten()
                .any(|name| matches_name(pattern, name)),
        };
        let exe = facts.exe.as_deref();
        let unit = facts.cgroup.unit.as_deref();
        matches(&self.exe, [exe, exe.map(file_name)])
            && matches(
                &self.unit,
                [unit, unit.and_then(|unit| unit.strip_suffix(".service"))],
            )
            && matches(
                &self.container,
                [facts.cgroup.container_id.as_deref(), None],
            )
            && matches(&self.comm, [Some(comm), None])
            && matches(&self.pod, [pod.map(|pod| &*pod.name), None])
            && matches(&self.namespace, [pod.map(|pod| &*pod.namespace), None])
    }
}

/// Maps a process to its workload. The service name comes from a matching rule, the environment (if
/// it may be read), the unit, the program, or the process name, in this order. The version comes
/// from the rule, the environment, or `build_id`. Environments in a user's sessions or units are
/// ignored: the user could choose any name.
pub fn identity_of(
    rules: &[Rule],
    facts: &Facts,
    comm: &str,
    pod: Option<&PodName>,
    build_id: Option<&str>,
) -> Identity {
    let rule = rules.iter().find(|rule| rule.matches(facts, comm, pod));
    let (env_service, env_version) = match facts.cgroup.is_of_user() {
        true => (None, None),
        false => (facts.from_env.0.as_deref(), facts.from_env.1.as_deref()),
    };
    let unit = facts.cgroup.unit.as_deref();
    // A memfd program has an arbitrary name.
    let exe = facts
        .exe
        .as_deref()
        .filter(|exe| !exe.starts_with("/memfd:"));
    let program = exe.map(file_name);
    let service = rule
        .map(|rule| &*rule.service)
        .or(env_service)
        .or(unit.map(|unit| unit.strip_suffix(".service").unwrap_or(unit)))
        .or(program)
        .or(facts.is_kernel.then_some(KERNEL))
        .unwrap_or(comm);
    let version = rule
        .and_then(|rule| rule.version.as_deref())
        .or(env_version)
        .or(build_id);
    let clean = |text: &str| CleanName::new(text).into_owned();
    Identity {
        service: clean(service),
        version: version.map(clean),
        namespace: pod.map(|pod| clean(&pod.namespace)),
        pod: facts.cgroup.pod.clone(),
        container_id: facts.cgroup.container_id.clone(),
    }
}

fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::identity::CgroupFacts;

    fn facts() -> Facts {
        Facts {
            exe: Some("/usr/sbin/nginx".into()),
            cgroup: CgroupFacts {
                unit: Some("web.service".into()),
                container_id: Some("ab".into()),
                pod: Some("uid".into()),
            },
            ..Facts::default()
        }
    }

    fn service(rules: &[Rule], facts: &Facts) -> String {
        identity_of(rules, facts, "comm", None, None).service
    }

    #[test]
    fn rules_come_first_then_environment_unit_program_and_name() {
        let rule = |exe: &str, comm: &str| Rule {
            exe: Some(exe.into()),
            comm: Some(comm.into()),
            service: "ruled".into(),
            ..Rule::default()
        };
        let mut facts = facts();
        facts.from_env.0 = Some("env".into());
        for (exe, comm, wanted) in [
            ("nginx", "comm", "ruled"),
            ("/usr/*/nginx", "co*", "ruled"),
            ("nginx", "other", "env"),
            ("ngin", "comm", "env"),
        ] {
            assert_eq!(service(&[rule(exe, comm)], &facts), wanted, "{exe} {comm}");
        }
        facts.from_env.0 = None;
        assert_eq!(service(&[], &facts), "web");
        facts.cgroup.unit = None;
        assert_eq!(service(&[], &facts), "nginx");
        for exe in [Some("/memfd:sealed-91173221a7ea".to_owned()), None] {
            facts.exe = exe;
            assert_eq!(service(&[], &facts), "comm");
        }
        facts.is_kernel = true;
        assert_eq!(service(&[], &facts), "kernel");
    }

    #[test]
    fn the_version_is_a_rules_or_the_environments_or_the_build_id() {
        let rule = Rule {
            unit: Some("web".into()),
            service: "shop".into(),
            version: Some("1".into()),
            ..Rule::default()
        };
        let pod = PodName {
            namespace: "prod".into(),
            name: "shop-0".into(),
        };
        let mut facts = facts();
        facts.from_env.1 = Some("2".into());
        let of = |rules: &[Rule], facts: &Facts| {
            identity_of(rules, facts, "comm", Some(&pod), Some("abcd"))
        };
        let ruled = of(&[rule], &facts);
        assert_eq!(ruled.version.as_deref(), Some("1"));
        assert_eq!(ruled.namespace.as_deref(), Some("prod"));
        assert_eq!(
            (ruled.pod.as_deref(), ruled.container_id.as_deref()),
            (Some("uid"), Some("ab"))
        );
        assert_eq!(of(&[], &facts).version.as_deref(), Some("2"));
        facts.from_env.1 = None;
        assert_eq!(of(&[], &facts).version.as_deref(), Some("abcd"));
        let in_pod = Rule {
            pod: Some("shop-*".into()),
            namespace: Some("prod".into()),
            service: "by-pod".into(),
            ..Rule::default()
        };
        assert_eq!(of(&[in_pod], &facts).service, "by-pod");
    }

    #[test]
    fn processes_of_a_user_do_not_name_themselves() {
        let path = "/user.slice/user-7.slice/user@7.service/app.slice/web.service";
        let mut facts = Facts {
            cgroup: CgroupFacts::of_path(path),
            from_env: (Some("web".into()), Some("2".into())),
            ..facts()
        };
        let identity = identity_of(&[], &facts, "web", None, Some("abcd"));
        assert_eq!(identity.service, "user@7");
        assert_eq!(identity.version.as_deref(), Some("abcd"));
        facts.cgroup = CgroupFacts::of_path("/system.slice/a.service");
        let identity = identity_of(&[], &facts, "web", None, Some("abcd"));
        assert_eq!(identity.service, "web");
        assert_eq!(identity.version.as_deref(), Some("2"));
    }

    #[test]
    fn names_are_without_control_characters() {
        let facts = Facts {
            exe: Some("/tmp/a\u{1b}[2J".into()),
            ..Facts::default()
        };
        assert!(!service(&[], &facts).contains('\u{1b}'));
    }
}
