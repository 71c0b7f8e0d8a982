//! LuaJIT: traces, its machine code for loops.
//!
//! A trace runs in the frame of the interpreter, which jumped to it, and uses the space below. The
//! interpreter has a single CFI rule, which says where it saved its caller's registers. The frame
//! is where that rule makes sense: its return address follows a call of the interpreter, with the
//! state of the Lua thread and the previous frame beside it.
//!
//! The lowest such place is the frame; others above it belong to outer calls. A stale frame below
//! it is unlikely: the trace's space would have to contain it and all C frames in between.
//!
//! Supports LuaJIT 2.1 on x86-64 with 64-bit pointers (GC64, the default since 2022): `lj_frame.h`,
//! `lj_obj.h`.

use super::NotedReads;
use crate::arch::x86_64::{RBP, RBX, RSP};
use crate::step::{self, Caller};
use crate::table::{Cfa, Found, RuleRef, Value};
use crate::{Arch, Memory, Modules, Registers};

/// Frame size in bytes, including the return address.
const FRAME: i32 = 80;
/// Callee-saved registers and their offsets from the caller's stack pointer.
const SAVED: [(u8, i32); 4] = [(RBX, -24), (RBP, -16), (14, -40), (15, -32)];
/// Offsets in the frame: return address, state of the Lua thread, previous frame.
const RETURN: u64 = 72;
const STATE: u64 = 16;
const BEFORE: u64 = 32;
const FLAGS: u64 = 3;
/// Maximum stack space of a trace in bytes: 255 slots of 4 bytes.
const MAX_ROOM: u64 = 1024;
const MAX_FUNCTION: usize = 256;
/// Offset of an object's type, and the type of Lua threads.
const TYPE: usize = 9;
const THREAD: u8 = 6;

/// Steps out of a trace. `None`, with unchanged registers, if nothing fits.
pub(crate) fn step(
    registers: &mut Registers,
    memory: &dyn Memory,
    modules: &dyn Modules,
) -> Option<Caller> {
    if registers.arch() != Arch::X86_64 {
        return None;
    }
    let first = registers.sp().checked_next_multiple_of(16)?;
    let places = (0..=MAX_ROOM).step_by(16);
    let modules = NotedReads::new(modules);
    let (caller, stepped) = modules.first_known(places, |room| {
        let frame = first.checked_add(room)?;
        let rule = at(frame, memory, &modules)?;
        apply(rule, frame, registers, memory)
    })?;
    *registers = stepped;
    Some(caller)
}

fn apply(
    rule: RuleRef<'_>,
    frame: u64,
    registers: &Registers,
    memory: &dyn Memory,
) -> Option<(Caller, Registers)> {
    let mut interpreter = *registers;
    interpreter.set(RSP, frame);
    interpreter.forget(12);
    interpreter.forget(13);
    let caller = step::apply(rule, &mut interpreter, memory).ok()?;
    Some((caller, interpreter))
}

fn at<'p>(frame: u64, memory: &dyn Memory, modules: &'p dyn Modules) -> Option<RuleRef<'p>> {
    let word = |offset| memory.read_u64(frame.wrapping_add(offset));
    let (address, state) = (word(RETURN)?, word(STATE)?);
    let before = word(BEFORE)? & !FLAGS;
    if state == 0 || !state.is_multiple_of(8) || (before != 0 && before <= frame) {
        return None;
    }
    modules.find(address.wrapping_sub(1))?.table?;
    let rule = entered(super::callee(address, modules)?, modules)?;
    // The thread's *current* frame proves nothing: it has run since the sample.
    let mut object = [0; TYPE + 1];
    let is_known = modules.code(state, &mut object) == object.len();
    (!is_known || object.last() == Some(&THREAD)).then_some(rule)
}

/// Returns the interpreter's rule if this function is part of it, or jumps into it like `lua_call`.
fn entered(function: u64, modules: &dyn Modules) -> Option<RuleRef<'_>> {
    let rule_at = |address: u64| {
        let module = modules.find(address)?;
        match module.table?.find(address.wrapping_sub(module.bias)) {
            Found::Rule(rule) if is_interpreter(rule) => Some(rule),
            _ => None,
        }
    };
    if let Some(rule) = rule_at(function) {
        return Some(rule);
    }
    let mut code = [0; MAX_FUNCTION];
    let len = modules.code(function, &mut code);
    let module = modules.find(function)?;
    let start_of = |address: u64| {
        module
            .table?
            .function_start(address.wrapping_sub(module.bias))
    };
    code.get(..len)?
        .windows(5)
        .enumerate()
        .find_map(|(at, bytes)| {
            let [0xe9, offset @ ..] = bytes else {
                return None;
            };
            let jump = function.wrapping_add(at as u64);
            let rule = rule_at(super::relative(
                jump.wrapping_add(5),
                offset.try_into().ok()?,
            ))?;
            // The jump belongs to this function, not to the next one.
            (start_of(jump) == start_of(function)).then_some(rule)
        })
}

fn is_interpreter(rule: RuleRef<'_>) -> bool {
    let saved = rule.saved();
    let has = |&(register, offset): &(u8, i32)| {
        (saved.iter()).any(|s| s.register == register && s.value == Value::AtCfa(offset))
    };
    rule.rule.cfa == Cfa::Register(RSP, FRAME)
        && rule.rule.return_address == Value::AtCfa(-8)
        && saved.len() == SAVED.len()
        && SAVED.iter().all(has)
}
