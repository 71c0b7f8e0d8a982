//! Target of a session, from the arguments.

use std::process::Command;

use rprof_launch::Target;
use rprof_sampler::SessionBuilder;

use crate::cli::TargetArgs;
use crate::messages::Failure;

impl TargetArgs {
    /// Sets target and CPUs of a session.
    pub(crate) fn apply(&self, builder: SessionBuilder) -> Result<SessionBuilder, Failure> {
        let target = if !self.processes.is_empty() {
            Target::Processes(self.processes.clone())
        } else if !self.threads.is_empty() {
            Target::Threads(self.threads.clone())
        } else if let Some(user) = &self.user {
            Target::User(user_id(user)?)
        } else if !self.cgroups.is_empty() {
            Target::Cgroups(self.cgroups.clone())
        } else if self.all_cpus || self.cpus.is_some() {
            Target::System
        } else {
            Target::Command
        };
        let cpus = self.cpus.as_ref().map(|list| list.0.clone());
        Ok(builder.target(target).cpus(cpus.unwrap_or_default()))
    }
}

/// Number of a user, by name or number.
fn user_id(user: &str) -> Result<u32, Failure> {
    if let Ok(number) = user.parse() {
        return Ok(number);
    }
    let passwd = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    let known = find(&passwd, user).or_else(|| {
        // Users that are kept elsewhere, as in LDAP.
        let asked = Command::new("getent").args(["passwd", "--", user]).output();
        find(&String::from_utf8_lossy(&asked.ok()?.stdout), user)
    });
    known.ok_or_else(|| {
        let message =
            format!("there is no user {user:?}; `id -u` shows numbers, which -u takes too");
        Failure::with_status(2, anyhow::anyhow!(message))
    })
}

/// Number of a user in the text of passwd(5).
fn find(passwd: &str, user: &str) -> Option<u32> {
    let mut lines = passwd.lines().map(|line| line.split(':'));
    lines.find_map(|mut fields| match fields.next() == Some(user) {
        true => fields.nth(1)?.parse().ok(),
        false => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_have_names_and_numbers() {
        let passwd = "root:x:0:0:root:/root:/bin/sh\nbad\nnobody:x:65534:65534::/:/bin/false\n";
        assert_eq!(find(passwd, "nobody"), Some(65534));
        assert_eq!(find(passwd, "bad"), None);
        assert_eq!(find(passwd, "ro"), None);
        assert!(matches!(user_id("1234"), Ok(1234)));
        assert!(user_id("no such user").is_err());
    }
}
