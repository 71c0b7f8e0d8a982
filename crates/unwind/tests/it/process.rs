//! A traced process: registers, memory, mappings.

use object::{Object, ObjectSymbol};
use rprof_unwind::{Arch, Memory, Module, Modules, Registers, UnwindTable};
use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command};
use std::rc::Rc;

/// A child that stops after every instruction.
pub(crate) struct Traced {
    /// `None` for a process that existed before.
    child: Option<Child>,
    pid: i32,
    /// The stopped thread.
    tid: i32,
    seized: HashSet<i32>,
    memory: File,
    maps: Vec<Mapping>,
    /// Number of times that the mappings were read.
    generation: u64,
    tables: HashMap<String, Option<Rc<UnwindTable>>>,
    /// Stack words read since the last step.
    words: RefCell<Vec<u8>>,
    words_at: u64,
    /// Number of stack bytes to read at each stop.
    pub(crate) stack_len: usize,
}

struct Mapping {
    start: u64,
    end: u64,
    name: String,
    table: Option<Rc<UnwindTable>>,
    bias: u64,
}

pub(crate) enum Stop {
    Stepped,
    Signal(i32),
    Gone,
}

impl Traced {
    pub(crate) fn start(program: &Path, arguments: &[&str]) -> Self {
        let mut command = Command::new(program);
        command.args(arguments);
        command.env_clear();
        command.stdout(std::process::Stdio::null());
        // SAFETY: the closure makes two system calls and allocates nothing.
        unsafe {
            command.pre_exec(|| {
                // Same addresses in every run.
                libc::personality(libc::ADDR_NO_RANDOMIZE as libc::c_ulong);
                libc::ptrace(libc::PTRACE_TRACEME, 0, 0, 0);
                Ok(())
            });
        }
        let child = command.spawn().unwrap();
        let pid = child.id();
        let memory = File::open(format!("/proc/{pid}/mem")).unwrap();
        let mut traced = Self::new(pid as i32, memory, Some(child));
        // The child stops at the first instruction of the new program.
        assert!(matches!(traced.wait(), Stop::Stepped));
        traced.memory = File::open(format!("/proc/{pid}/mem")).unwrap();
        traced.look_at_maps();
        traced
    }

    fn new(pid: i32, memory: File, child: Option<Child>) -> Self {
        Self {
            child,
            pid,
            tid: pid,
            seized: HashSet::new(),
            memory,
            maps: Vec::new(),
            generation: 0,
            tables: HashMap::new(),
            words: RefCell::default(),
            words_at: 0,
            stack_len: 1 << 14,
        }
    }

    /// Traces a running process.
    pub(crate) fn of(pid: i32) -> Self {
        let memory = File::open(format!("/proc/{pid}/mem")).unwrap();
        Self::new(pid, memory, None)
    }

    /// Stops one thread of a running process. Returns false if it has ended.
    pub(crate) fn stop(&mut self, tid: i32) -> bool {
        self.tid = tid;
        self.words.get_mut().clear();
        // SAFETY: no memory is passed; a thread that is not ours is refused.
        let seized = self.seized.contains(&tid)
            || unsafe { libc::ptrace(libc::PTRACE_SEIZE, tid, 0, 0) } == 0;
        // SAFETY: as above.
        if !seized || unsafe { libc::ptrace(libc::PTRACE_INTERRUPT, tid, 0, 0) } != 0 {
            return false;
        }
        self.seized.insert(tid);
        loop {
            let mut status = 0;
            // SAFETY: `status` is a valid place for the status of a thread that is traced.
            let waited = unsafe { libc::waitpid(tid, &raw mut status, libc::__WALL) };
            if waited != tid || !libc::WIFSTOPPED(status) {
                return false;
            }
            if status >> 16 == libc::PTRACE_EVENT_STOP {
                return true;
            }
            // A signal arrived first: deliver it.
            let signal = libc::WSTOPSIG(status);
            // SAFETY: the thread is stopped and traced; no memory is passed.
            unsafe { libc::ptrace(libc::PTRACE_CONT, tid, 0, signal) };
        }
    }

    /// Releases a thread that [`stop`](Self::stop) stopped.
    pub(crate) fn go_on(&mut self, tid: i32) {
        // SAFETY: the thread is stopped and traced; no memory is passed. Detached, it takes its
        // signals itself.
        unsafe { libc::ptrace(libc::PTRACE_DETACH, tid, 0, 0) };
        self.seized.remove(&tid);
    }

    fn pid(&self) -> i32 {
        self.pid
    }

    fn wait(&mut self) -> Stop {
        let mut status = 0;
        // SAFETY: `status` is a valid place for the status of a child of ours.
        let waited = unsafe { libc::waitpid(self.pid(), &raw mut status, 0) };
        if waited < 0 || !libc::WIFSTOPPED(status) {
            return Stop::Gone;
        }
        match libc::WSTOPSIG(status) {
            libc::SIGTRAP => Stop::Stepped,
            signal => Stop::Signal(signal),
        }
    }

    /// Executes one instruction. Delivers `signal` first, unless it is 0.
    pub(crate) fn step(&mut self, signal: i32) -> Stop {
        // SAFETY: the child is stopped and ours; no memory is passed.
        let done = unsafe { libc::ptrace(libc::PTRACE_SINGLESTEP, self.pid(), 0, signal) };
        if done < 0 {
            return Stop::Gone;
        }
        self.words.get_mut().clear();
        self.wait()
    }

    /// Lets the child run to this address.
    pub(crate) fn run_to(&mut self, avma: u64) {
        let mut word = [0; 8];
        assert_eq!(self.bytes(avma, &mut word), 8);
        let good = i64::from_le_bytes(word);
        // int3
        word[0] = 0xcc;
        let poke = |pid: i32, word: i64| {
            // SAFETY: the child is stopped and ours; the word replaces one of its code.
            unsafe { libc::ptrace(libc::PTRACE_POKETEXT, pid, avma, word) }
        };
        assert_eq!(poke(self.pid(), i64::from_le_bytes(word)), 0);
        // SAFETY: the child is stopped and ours; no memory is passed.
        unsafe { libc::ptrace(libc::PTRACE_CONT, self.pid(), 0, 0) };
        assert!(matches!(self.wait(), Stop::Stepped));
        assert_eq!(poke(self.pid(), good), 0);
        // SAFETY: all-zero bytes are a valid user_regs_struct.
        let mut user: libc::user_regs_struct = unsafe { std::mem::zeroed() };
        // SAFETY: the child is stopped and ours; `user` is what the requests fill and read.
        unsafe {
            libc::ptrace(libc::PTRACE_GETREGS, self.pid(), 0, &raw mut user);
            user.rip = avma;
            libc::ptrace(libc::PTRACE_SETREGS, self.pid(), 0, &raw const user);
        }
        self.look_at_maps();
    }

    /// Executes the dynamic linker, up to the entry point of the program.
    pub(crate) fn run_to_entry(&mut self) {
        self.run_to(self.entry());
    }

    /// Executes the program up to the start of a function that it exports.
    pub(crate) fn run_to_exported(&mut self, function: &str) {
        let image = std::fs::read(format!("/proc/{}/exe", self.pid())).unwrap();
        let file = object::File::parse(&*image).unwrap();
        let mut symbols = file.dynamic_symbols();
        let symbol = symbols.find(|symbol| symbol.name() == Ok(function));
        let bias = self.entry() - file.entry();
        self.run_to(bias + symbol.unwrap().address());
    }

    fn entry(&self) -> u64 {
        const AT_ENTRY: u64 = 9;
        let auxv = std::fs::read(format!("/proc/{}/auxv", self.pid())).unwrap();
        let words: Vec<u64> = (auxv.chunks_exact(8))
            .map(|word| u64::from_le_bytes(word.try_into().unwrap()))
            .collect();
        let entry = words.chunks_exact(2).find(|pair| pair[0] == AT_ENTRY);
        entry.unwrap()[1]
    }

    /// Lets the child run for a while, then stops it anywhere.
    pub(crate) fn run_for(&mut self, time: std::time::Duration) -> Stop {
        self.words.get_mut().clear();
        let mut signal = 0;
        // SAFETY: the child is stopped and ours; no memory is passed.
        unsafe { libc::ptrace(libc::PTRACE_CONT, self.pid(), 0, signal) };
        std::thread::sleep(time);
        // SAFETY: the child was not waited for to its end, so the number is still its.
        unsafe { libc::kill(self.pid(), libc::SIGSTOP) };
        loop {
            match self.wait() {
                Stop::Signal(libc::SIGSTOP) => return Stop::Stepped,
                Stop::Signal(other) => signal = other,
                Stop::Stepped => signal = 0,
                Stop::Gone => return Stop::Gone,
            }
            // SAFETY: as above.
            unsafe { libc::ptrace(libc::PTRACE_CONT, self.pid(), 0, signal) };
        }
    }

    pub(crate) fn registers(&mut self) -> Registers {
        // SAFETY: all-zero bytes are a valid user_regs_struct.
        let mut user: libc::user_regs_struct = unsafe { std::mem::zeroed() };
        // SAFETY: the child is stopped and ours; `user` is what the request fills.
        let done = unsafe { libc::ptrace(libc::PTRACE_GETREGS, self.tid, 0, &raw mut user) };
        assert_eq!(done, 0);
        // `__USER32_CS`.
        let arch = match user.cs == 0x23 {
            true => Arch::X86,
            false => Arch::X86_64,
        };
        let mut registers = Registers::new(arch, user.rip, user.rsp);
        let general = [
            user.rax, user.rdx, user.rcx, user.rbx, user.rsi, user.rdi, user.rbp, user.rsp,
            user.r8, user.r9, user.r10, user.r11, user.r12, user.r13, user.r14, user.r15,
        ];
        let general_of_i386 = [
            user.rax, user.rcx, user.rdx, user.rbx, user.rsp, user.rbp, user.rsi, user.rdi,
        ];
        let general = match arch {
            Arch::X86 => &general_of_i386[..],
            _ => &general[..],
        };
        for (number, value) in (0..).zip(general) {
            registers.set(number, *value);
        }
        registers
    }

    pub(crate) fn bytes(&self, avma: u64, into: &mut [u8]) -> usize {
        self.memory.read_at(into, avma).unwrap_or(0)
    }

    /// Reads the stack at once.
    pub(crate) fn read_stack(&mut self, sp: u64) {
        let mut words = vec![0; self.stack_len];
        let len = self.memory.read_at(&mut words, sp).unwrap_or(0);
        words.truncate(len);
        *self.words.get_mut() = words;
        self.words_at = sp;
    }

    /// Returns the stack bytes.
    pub(crate) fn stack(&self) -> Vec<u8> {
        self.words.borrow().clone()
    }

    pub(crate) fn look_at_maps(&mut self) {
        let maps = std::fs::read_to_string(format!("/proc/{}/maps", self.pid())).unwrap();
        self.maps.clear();
        self.generation += 1;
        for line in maps.lines() {
            let mut words = line.split_ascii_whitespace();
            let range = words.next().unwrap();
            if !words.next().unwrap().contains('x') {
                continue;
            }
            let hex = |text: &str| u64::from_str_radix(text, 16).unwrap();
            let offset = hex(words.next().unwrap());
            let name = words.nth(2).unwrap_or("").to_owned();
            let (start, end) = range.split_once('-').unwrap();
            let (start, end) = (hex(start), hex(end));
            if !self.tables.contains_key(&name) {
                let bytes = if name == "[vdso]" {
                    let mut bytes = vec![0; (end - start) as usize];
                    let len = self.bytes(start, &mut bytes);
                    bytes.truncate(len);
                    bytes
                } else {
                    std::fs::read(&name).unwrap_or_default()
                };
                let table = UnwindTable::parse(&bytes).ok().map(Rc::new);
                self.tables.insert(name.clone(), table);
            }
            let table = self.tables[&name].clone();
            let bias = table.as_ref().and_then(|table| table.bias(start, offset));
            self.maps.push(Mapping {
                start,
                end,
                name,
                table,
                bias: bias.unwrap_or(0),
            });
        }
    }

    /// Names the mapping of an address, for messages.
    pub(crate) fn place(&self, avma: u64) -> String {
        match self.mapping(avma) {
            Some(mapping) => format!("{}+{:#x}", mapping.name, avma.wrapping_sub(mapping.bias)),
            None => format!("{avma:#x}"),
        }
    }

    fn mapping(&self, avma: u64) -> Option<&Mapping> {
        let behind = self.maps.partition_point(|mapping| mapping.start <= avma);
        let mapping = self.maps.get(behind.checked_sub(1)?)?;
        (avma < mapping.end).then_some(mapping)
    }
}

impl Drop for Traced {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Memory for Traced {
    fn read_u64(&self, avma: u64) -> Option<u64> {
        let words = self.words.borrow();
        let at = usize::try_from(avma.wrapping_sub(self.words_at)).ok()?;
        if let Some(word) = words.get(at..).and_then(|rest| rest.first_chunk()) {
            return Some(u64::from_le_bytes(*word));
        }
        let mut word = [0; 8];
        (self.bytes(avma, &mut word) == 8).then(|| u64::from_le_bytes(word))
    }
}

impl Modules for Traced {
    fn find(&self, avma: u64) -> Option<Module<'_>> {
        self.mapping(avma).map(|mapping| Module {
            table: mapping.table.as_deref(),
            bias: mapping.bias,
        })
    }

    fn code(&self, avma: u64, into: &mut [u8]) -> usize {
        self.bytes(avma, into)
    }

    fn generation(&self) -> Option<u64> {
        Some(self.generation)
    }
}
