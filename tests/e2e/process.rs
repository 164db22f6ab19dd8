//! Processes that end with the tests, however the tests end.

use std::fs::File;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};

/// A shell that starts the program and then waits for the end of its own standard input. Only this process holds the
/// other end, so a normal end, a panic and a SIGKILL of the tests all reach the shell, and it kills what it started
/// and nothing else. `$1` is a directory to remove afterwards, or empty.
const WATCHDOG: &str = r#"
remove=$1
shift
"$@" </dev/null &
child=$!
read -r _
kill -KILL "$child"
wait "$child"
[ -z "$remove" ] || rm -rf "$remove"
"#;

/// A running program, killed (SIGKILL) when this is dropped.
pub struct Running {
    name: &'static str,
    shell: Child,
    lifeline: Option<ChildStdin>,
    log: PathBuf,
}

impl Running {
    /// Starts `command` (its program, arguments and environment) with its output added to `log`.
    pub fn start(name: &'static str, command: &Command, log: &Path, remove: Option<&Path>) -> Self {
        let output = File::options()
            .create(true)
            .append(true)
            .open(log)
            .expect("a log file can be written");
        let mut shell = Command::new("/bin/sh");
        shell
            .args(["-c", WATCHDOG, "watchdog"])
            .arg(remove.unwrap_or(Path::new("")))
            .arg(command.get_program())
            .args(command.get_args())
            .envs(command.get_envs().filter_map(|(key, value)| Some((key, value?))))
            .stdin(Stdio::piped())
            .stdout(output.try_clone().expect("a log file can be shared"))
            .stderr(output)
            // A group of its own: an interrupt from the terminal must not end the shell before it has cleaned up.
            .process_group(0);
        let mut shell = shell.spawn().expect("/bin/sh starts");
        let lifeline = shell.stdin.take();
        Self {
            name,
            shell,
            lifeline,
            log: log.to_owned(),
        }
    }

    /// Kills the program and waits until it is gone.
    pub fn kill(&mut self) {
        drop(self.lifeline.take());
        self.shell.wait().expect("the shell can be waited for");
    }

    /// The process ID of the program itself.
    pub fn id(&self) -> u32 {
        let shell = self.shell.id();
        let children = std::fs::read_to_string(format!("/proc/{shell}/task/{shell}/children"))
            .expect("the shell's children can be listed");
        let id = children.split_whitespace().next().and_then(|id| id.parse().ok());
        id.unwrap_or_else(|| panic!("{} does not run", self.name))
    }

    /// Asks the program to end, as a kubelet does.
    pub fn terminate(&self) {
        let done = Command::new("kill").arg(self.id().to_string()).status();
        assert!(
            done.is_ok_and(|status| status.success()),
            "{} takes a signal",
            self.name
        );
    }

    /// The name that logs and messages use.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// The last lines that the program wrote.
    pub fn tail(&self, lines: usize) -> String {
        let text = std::fs::read_to_string(&self.log).unwrap_or_default();
        let all: Vec<&str> = text.lines().collect();
        let last = all[all.len().saturating_sub(lines)..].join("\n");
        format!(
            "--- last lines of {} ({})\n{last}\n",
            self.name,
            self.log.display()
        )
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.kill();
    }
}
