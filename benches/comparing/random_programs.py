"""Random C and C++ programs whose callers are known by construction, for benches/edges --random.

A function calls only functions with larger numbers, so the legal pairs of caller and callee follow from the source. Most
functions have one to three callees of many, so a stack that lacks a frame has a pair that no source line explains.
"""

import os
import random
import re
import subprocess

INCLUDES = "alloca math pthread setjmp signal stdarg stdio stdlib string sys/time time ucontext unistd"
HEAD = "#define _GNU_SOURCE\n" + "".join(f"#include <{name}.h>\n" for name in INCLUDES.split()) + r"""
#ifdef __clang__
#define F __attribute__((noinline, used))
#else
#define F __attribute__((noinline, noclone, used))
#endif
#ifdef __cplusplus
extern "C" {
#endif
extern volatile long sink; extern __thread jmp_buf *target; extern __thread long depth;
static inline __attribute__((always_inline)) long spin(long x, int n) { for (int i = 0; i < n; i++) x = x * 31 + (i ^ (x >> 7)); return x; }
"""
MAIN = r"""volatile long sink; __thread jmp_buf *target; __thread long depth;
static double used(void) { struct timespec t; clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t); return t.tv_sec + t.tv_nsec / 1e9; }
static double limit;
F static void timed(int s) { volatile char v[20000]; v[s] = 1; v[s + 1] = spin(v[s], 9000); }
static void *run(void *x) { long r = (long)x; while (used() < limit) { for (int i = 0; i < 50; i++) r += f0(r & 1023); sink = r; } return 0; }
int main(int c, char **v) {
  limit = c > 1 ? atof(v[1]) : 0.5;
  struct itimerval end = {{0, 0}, {(long)(limit * 3) + 1, 0}}; setitimer(ITIMER_VIRTUAL, &end, 0);
  static char other[65536]; stack_t on = {0}; on.ss_sp = other; on.ss_size = sizeof other; sigaltstack(&on, 0);
  struct sigaction a; memset(&a, 0, sizeof a); a.sa_handler = h0; a.sa_flags = SA_NODEFER; sigaction(SIGUSR1, &a, 0);
  a.sa_flags |= SA_ONSTACK; sigaction(SIGUSR2, &a, 0);
  a.sa_handler = timed; a.sa_flags = FLAGS; sigaction(SIGALRM, &a, 0);
  struct itimerval often = {{0, 300}, {0, TIMED}}; setitimer(ITIMER_REAL, &often, 0);
  pthread_t t[3]; int threads = THREADS;
  for (int i = 0; i < threads; i++) pthread_create(&t[i], 0, run, (void *)(long)i);
  run(0); for (int i = 0; i < threads; i++) pthread_join(t[i], 0);
  return 0; }
"""
# Bodies of functions: {f} is the name, {a}, {b} and {c} are callees, {n} a small number.
INNER = {
    "plain": "F long {f}(long x) {{ long r = {a}(x + 1) * 3; r ^= {b}(r); sink = r; return r ^ {c}(x); }}",
    "tail": "F long {f}(long x) {{ if (x & 1) return {a}(x + 2); x = spin(x, {n}); return {b}(x + 1); }}",
    "tail pointer": "static long (*volatile {f}_p)(long) = {a}; F long {f}(long x) {{ x = spin(x, {n}); return {f}_p(x); }}",
    "pointer": "static long (*volatile {f}_p[2])(long) = {{{a}, {b}}};F long {f}(long x) {{ long r = {f}_p[x & 1](x); sink = r; return r + {f}_p[~x & 1](r) * 3; }}",
    "switch": "F long {f}(long x) {{ long r = x; switch (x & 7) {{ case 0: r = {a}(x) + 1; break; case 1: r = {b}(x) * 5; break; case 2: r = spin(x, 40); break; case 3: r = {c}(x) ^ 77; break; case 4: r = x * 3; break; case 5: sink = x; "
              "r = {a}(x + 9) - 4; break; case 6: return {b}(x); default: r += {c}(x) + 8; }} sink = r; return r; }}",
    "alloca": "F long {f}(long x) {{ char *p = (char *)alloca((x & 63) + 8); memset(p, x, 8); long r = {a}(x); sink = p[3]; return r + p[1]; }}",
    "vla": "F long {f}(long x) {{ long s = 0; for (int i = 1; i < 4; i++) {{ volatile long v[(x & 15) + i]; v[i - 1] = x; s += {a}(x + i) + v[0]; }} return s; }}",
    "setjmp": "F long {f}(long x) {{ jmp_buf here, *volatile old = target; volatile long r = 1, d = depth; if (!setjmp(here)) {{ target = &here; r = {a}(x) + 1; }} target = old; depth = d; return r + {b}(x); }}",
    "big": "F long {f}(long x) {{ volatile char v[{n}000]; v[x & 127] = x; long r = {a}(x); return r + v[x & 63]; }}",
    "huge": "F long {f}(long x) {{ volatile char v[90000]; v[x & 127] = x; long r = {a}(x); return r + v[x & 63]; }}",
    "recursion": "F long {f}(long x) {{ if (x > 0 && depth < {n}) {{ depth++; long r = {f}(x - 1) * 3; depth--; return r ^ 5; }} sink = x; return {a}(x) + 1; }}",
    "varargs": "F static long {f}v(long n, ...) {{ va_list l; va_start(l, n); long s = 0; while (n--) s += va_arg(l, long); va_end(l); return {a}(s) + 1; }}F long {f}(long x) {{ long r = {f}v(3, x, x + 1, x + 2); sink = r; return r; }}",
    "doubles": "F static double {f}v(double a, long n, ...) {{ va_list l; va_start(l, n); a += va_arg(l, double); va_end(l); return {a}((long)a) + 0.5; }}F long {f}(long x) {{ double r = {f}v((double)(x & 255), 1, 2.5); sink = (long)(r / 3); return sink; }}",
    "qsort": "F static int {f}v(const void *a, const void *b) {{ sink = {a}(*(const long *)a); return (*(const long *)a > *(const long *)b) - 1; }}F long {f}(long x) {{ long v[4] = {{x, 3, x ^ 5, 1}}; qsort(v, 4, sizeof *v, {f}v); return v[0]; }}",
    "signal": "F long {f}(long x) {{ if ((x & 31) == 3) raise({signal}); long r = {a}(x); sink = r; return r + 2; }}",
    "cold": "F __attribute__((cold)) static long {f}v(long x) {{ sink = {b}(x); return x ^ 9; }}F long {f}(long x) {{ if (__builtin_expect((x & 3) == 1, 0)) x = {f}v(x + 1); long r = {a}(x); sink = r; return r * 7; }}",
    "aligned": "F long {f}(long x) {{ __attribute__((aligned(64))) volatile long v[16]; v[x & 15] = x; long r = {a}(x); return r + v[x & 15]; }}",
    "push": "F long {f}(long x) {{ long r = {a}(x); sink = r; __asm__ volatile(\"sub $128,%%rsp; {moved}push %%rax; {pushed}\\n mov $60,%%ecx\\n1: imul $31,%0; dec %%ecx; jnz 1b\\n pop %%rax; {popped}add $128,%%rsp; {back}\" : \"+r\"(r) :: \"rcx\", \"rax\", \"cc\", \"memory\"); return r + {b}(x); }}",
    "naked": "F __attribute__((naked, no_instrument_function)) long {f}(long x) {{ __asm__(\"push %rbx; sub $16,%rsp; mov %rdi,%rbx; call {a}{plt}; lea 5(%rax,%rbx),%rax; add $16,%rsp; pop %rbx; ret\"); }}",
    "assembly": "__asm__(\".text; .globl {f}; .type {f},@function; {f}: push %r12; push %rdi; sub $24,%rsp; mov %rdi,%r12; call {a}{plt}; mov $40,%ecx\\n1: imul $31,%rax; dec %ecx; jnz 1b\\nadd $24,%rsp; pop %rdi; pop %r12; jmp {b}{plt}; .size {f},.-{f}\"); long {f}(long x);",
    "ms abi": "F __attribute__((ms_abi)) static long {f}v(long x, double y) {{ long r = {a}(x); sink = (long)y; return r + (long)(y * 2); }} F long {f}(long x) {{ long r = {f}v(x, x * 0.5); sink = r; return r; }}",
    "nested": "F static long {f}v(long (*p)(long), long x) {{ long r = p(x); sink = r; return r; }}F long {f}(long x) {{ volatile long k = x; F long {f}w(long y) {{ k += y; return {a}(y) + k; }} return {f}v({f}w, x) + 1; }}",
    "context": "static __thread ucontext_t {f}m, {f}o; static __thread long {f}x; static __thread char *{f}s; F static void {f}v(void) {{ for (;;) {{ {f}x = {a}({f}x); swapcontext(&{f}o, &{f}m); }} }}F long {f}(long x) {{ {f}x = x; if (!{f}s) {{ {f}s = (char *)malloc(300000); getcontext(&{f}o); {f}o.uc_stack.ss_sp = {f}s; "
               "{f}o.uc_stack.ss_size = 300000; makecontext(&{f}o, {f}v, 0); }} swapcontext(&{f}m, &{f}o); return {f}x + 1; }}",
    "end": "F __attribute__((noreturn)) static void {f}v(long x) {{ sink = {b}(x); longjmp(*target, 1); }}F long {f}(long x) {{ if (target && (x & 7) == 2) {f}v(x); return {a}(x); }}",
    "deep": "F long {f}(long x) {{ volatile char v[{n}000]; v[x & 127] = x; long r; if (depth < 3) {{ depth++; r = {f}(x - 1); depth--; }} else r = {a}(x); return r + v[x & 63]; }}",
    "abort": "F long {f}(long x) {{ if (x == 0x7ffffff1234) abort(); long r = {a}(x); if (r == 0x7ffffff1235) exit(3); sink = r; return r + 1; }}",
    "die": "F __attribute__((noreturn)) static void {f}v(long x) {{ sink = x; _exit(1); }}F long {f}(long x) {{ long r = {a}(x); if (r == 0x7ffffff1236) {f}v(r); r ^= {b}(x); if (r == 0x7ffffff1237) __builtin_trap(); return r; }}",
    "die by pointer": "static void (*volatile {f}_p)(int) __attribute__((noreturn)) = exit; F long {f}(long x) {{ volatile char v[{n}000]; v[x & 127] = x; long r = {a}(x); if (r == 0x7ffffff1238) {f}_p(v[x & 63]); return r + v[x & 63]; }}",
    "cases": "F long {f}(long x) {{ volatile char v[{n}00]; v[x & 63] = x; long r; switch (x & 15) {{ case 0: r = {a}(x) + 1; break; case 1: r = {b}(x) * 5; break; case 2: r = {c}(x) ^ 77; break; case 3: r = spin(x, {n}); break; case 4: r = 9 * {a}(x + 3); break; case 5: r = {b}(x + 4) / 3; break; case 6: r = x; break; case 7: r = {c}(~x); break; case 8: sink = x; r = 8; break; "
             "case 9: r = {a}(x ^ 5) - 9; break; case 10: r = {b}(x ^ 3) ^ x; break; case 11: if (x == 0x7ffffff1239) abort(); r = x; break; default: r = {c}(x) + 2; }} return r + v[x & 31]; }}",
    "asm call": "F long {f}(long x) {{ register long r __asm__(\"rax\"); long y = x; __asm__ volatile(\"mov %%rsp,%%rbx; sub $136,%%rsp; and $-16,%%rsp; call {a}{plt}; mov %%rbx,%%rsp\" : \"=a\"(r), \"+D\"(y) :: {clobbers}); sink = r; return r + {b}(x); }}",
    "asm stack": "static __thread char *{f}s; F long {f}(long x) {{ if (!{f}s) {{ {f}s = (char *)malloc(300000); memset({f}s, 0, 300000); }} long r, y = x; __asm__ volatile(\"mov %%rsp,%%rbx; mov %2,%%rsp; call {a}{plt}; mov %%rbx,%%rsp\" : \"=a\"(r), \"+D\"(y) : \"r\"(((long)({f}s + 290000) & -16)) : {clobbers}); sink = r; return r + {b}(x); }}",
    "asm fp": "F long {f}(long x) {{ long r = {a}(x); __asm__ volatile(\"sub $128,%%rsp; push %%rbp; mov $90,%%ebp\\n1: imul $31,%0; dec %%ebp; jnz 1b\\n pop %%rbp; add $128,%%rsp\" : \"+a\"(r) :: \"cc\", \"memory\"); sink = r; return r + {b}(x); }}",
    "asm thunk": "F long {f}(long x) {{ long r, y = x; __asm__ volatile(\"mov %%rsp,%%rbx; sub $136,%%rsp; and $-16,%%rsp; jmp 2f\\n1: call 3f\\n4: pause; lfence; jmp 4b\\n3: mov %2,(%%rsp); ret\\n2: call 1b; mov %%rbx,%%rsp\" : \"=a\"(r), \"+D\"(y) : \"r\"({a}) : {clobbers}); sink = r; return r + 2; }}",
    "shared tail": "__asm__(\".text; .globl {f}; .type {f},@function; {f}: push %r12; push %rdi; sub $8,%rsp; mov %rdi,%r12; test $1,%dil; jne 8f; call {a}{plt}\\n9: mov $50,%ecx\\n1: imul $31,%rax; dec %ecx; jnz 1b\\nadd $8,%rsp; pop %rdi; pop %r12; ret; .size {f},.-{f}; .type {f}y,@function; {f}y: push %r12; push %rdi; sub $8,%rsp; mov %rdi,%r12\\n8: lea 3(%r12),%rdi; call {b}{plt}; jmp 9b; .size {f}y,.-{f}y\"); long {f}(long x);",
    "goto": "F long {f}(long x) {{ static void *const to[] = {{&&one, &&two, &&three, &&four}}; volatile long v[6]; v[x & 3] = x; long r = x; goto *to[x & 3]; one: r = {a}(r) + 1; if (r & 1) goto *to[r & 3]; goto four; two: r = {b}(r) ^ 3; goto three; three: r = spin(r, {n}); four: sink = r; return r + v[x & 1]; }}",
    "many": "F static long {f}v(long a, long b, long c, long d, long e, long g, long h, long i, long j) {{ sink = h + j; return {a}(a + b + c + d) ^ (e + g + h + i + j); }}F long {f}(long x) {{ long r = {f}v(x, 1, x + 2, 3, x + 4, 5, x + 6, 7, x + 8); sink = r; r += {f}v(r, x, 2, 3, 4, 5, 6, x, 9); return r + 1; }}",
    "struct": "struct {f}s {{ long a[9]; }}; F static long {f}v(struct {f}s s, long x) {{ sink = s.a[x & 7]; return {a}(s.a[0] + x) + s.a[3]; }}F long {f}(long x) {{ struct {f}s s; for (int i = 0; i < 9; i++) s.a[i] = x + i; long r = {f}v(s, x); sink = r; return r + {b}(x); }}",
    "early": "F long {f}(long x) {{ if ((x & 7) == 1) return x; long v[3] = {{x, 2, x}}; for (long i = x & 3; i >= 0; i--) {{ v[i % 3] += {a}(x + i); if (v[0] == 12345) return 3; }} return v[0] + {b}(v[1]) + v[2]; }}",
    "cold part": "F __attribute__((cold)) static long {f}v(long x) {{ sink = {b}(x); return x ^ 9; }}F long {f}(long x) {{ volatile char v[{n}0]; v[x & 7] = x; long r = x; if (__builtin_expect((x & 3) == 1, 0)) {{ for (int i = 0; i < 2; i++) {{ r = {f}v(r + 1); r = spin(r, {n}); r += {c}(r); }} }} r += {a}(r); sink = r; return r * 7 + v[x & 3]; }}",
    "resolver": "F static long {f}v(long x) {{ long r = {a}(x); sink = r; return r + 3; }}static long (*{f}w(void))(long) {{ return {f}v; }} long {f}(long x) __attribute__((ifunc(\"{f}w\")));",
    "cleanup": "F static void {f}v(long *x) {{ sink = {b}(*x); }}F long {f}(long x) {{ __attribute__((cleanup({f}v))) long r = {a}(x); sink = r; return r * 3; }}",
    "preserve": "F __attribute__((preserve_most)) static long {f}v(long x) {{ long r = {a}(x); sink = r; return r + 1; }}F long {f}(long x) {{ long r = {f}v(x); sink = r; return r + {f}v(x + 1); }}",
    "catch": "F long {f}(long x) {{ long r = x; try {{ r = {a}(x) + 1; }} catch (int e) {{ r = {b}(e); }} sink = r; return r; }}",
    "object": "struct {f}g {{ long &r; ~{f}g() {{ r += {b}(r); }} }}; F long {f}(long x) {{ long r = x; {{ {f}g g{{r}}; r = {a}(x); sink = r; }} return r * 3; }}",
    "virtual": "struct {f}g {{ virtual long {f}v(long x); virtual ~{f}g() {{}} }}; F long {f}g::{f}v(long x) {{ sink = {a}(x); return sink; }}F long {f}(long x) {{ static {f}g *volatile g = new {f}g; long r = g->{f}v(x); sink = r; return r + 1; }}",
}
LEAVES = {
    "loop": "F long {f}(long x) {{ return spin(x, 90); }}",
    "frame": "F long {f}(long x) {{ volatile long v[20]; for (int i = 0; i < 20; i++) v[i] = x + i; x = spin(x, {n}); return v[x & 15] + x; }}",
    "memset": "F long {f}(long x) {{ char v[600]; memset(v, x, 200 + (x & 255)); __asm__ volatile(\"\" :: \"r\"(v) : \"memory\"); return v[3]; }}",
    "print": "F long {f}(long x) {{ char v[60]; return snprintf(v, sizeof v, \"%ld %s\", x, \"text\"); }}",
    "call": "F long {f}(long x) {{ return getppid() + x; }}",
    "sine": "F long {f}(long x) {{ double s = 0; for (int i = 0; i < 4; i++) s += sin((double)(x & 255) + i); return (long)s; }}",
    "malloc": "F long {f}(long x) {{ char *p = (char *)malloc(40 + (x & 511)); p[2] = x; __asm__ volatile(\"\" :: \"r\"(p) : \"memory\"); long r = p[2]; free(p); return r; }}",
    "jump": "F long {f}(long x) {{ x = spin(x, {n}); if (target && (x & 7) == 3) longjmp(*target, 1); return x; }}",
    "strings": "F long {f}(long x) {{ __asm__ volatile(\"\" ::: \"rbx\", \"r12\", \"r13\", \"r14\", \"r15\"); char v[64]; for (int i = 0; i < 63; i++) v[i] = 'a' + ((x + i) & 15); v[63] = 0; return strlen(v) + (strchr(v, 'q') != 0); }}",
    "thunk": "__asm__(\".text; .globl {f}; .type {f},@function; {f}: push %rbp; push %rbx; mov $70,%ecx; lea 1(%rdi),%rax\\n1: imul $31,%rax; dec %ecx; jnz 1b\\n pop %rbx; pop %rbp; ret; .size {f},.-{f}\"); long {f}(long x);",
    "throw": "F long {f}(long x) {{ x = spin(x, {n}); if ((x & 63) == 5) throw (int)(x & 7); return x; }}",
}
CLOBBERS = ", ".join(f'"{name}"' for name in "rcx rdx rsi rbx r8 r9 r10 r11 cc memory".split() + [f"xmm{at}" for at in range(16)])
CPP = {"catch", "object", "virtual", "throw"}
# Shapes that no exception may leave: without description, on another stack, or in a handler.
NO_EXCEPTION = {"naked", "assembly", "thunk", "context", "signal", "push", "print", "qsort", "asm call", "asm stack", "asm thunk", "shared tail"}
# Attributes of single functions.
ATTRIBUTES = {"gcc": ['optimize("O0")', 'optimize("no-omit-frame-pointer")', 'optimize("O3")', "flatten", "cold", "hot", "aligned(1)"],
              "clang": ["optnone", "minsize", "disable_tail_calls", "cold", "hot", "aligned(1)"]}
# Callees that a shape may jump to.
TAILS = {"tail": "ab", "tail pointer": "a", "switch": "b", "assembly": "b", "end": "a"}
FLAGS = {
    "gcc": ["-fsplit-stack", "-freorder-blocks-and-partition", "-fno-plt", "-mindirect-branch=thunk", "-mindirect-branch=thunk-inline",
            "-mfunction-return=thunk", "-fno-optimize-sibling-calls", "-fstack-clash-protection", "-mcmodel=large", "-maccumulate-outgoing-args",
            "-mfunction-return=thunk-inline", "-fpatchable-function-entry=8,4", "-pg -mfentry", "-mpreferred-stack-boundary=5", "-mcall-ms2sysv-xlogues",
            "-fstack-check", "-fzero-call-used-regs=all", "-mno-push-args", "-fno-defer-pop", "-minline-all-stringops", "-ftracer", "-fharden-compares",
            "-fno-shrink-wrap", "-fno-reorder-blocks-and-partition", "-fipa-ra -fcaller-saves", "-fno-dwarf2-cfi-asm", "-fconserve-stack", "-mstackrealign", "-fno-omit-frame-pointer -mno-omit-leaf-frame-pointer", "-ffixed-rbx", "-fira-region=all"],
    "clang": ["-mretpoline", "-mstackrealign", "-mno-red-zone", "-fno-plt", "-fno-optimize-sibling-calls", "-mcmodel=large", "-ffunction-sections -Wl,--gc-sections",
              "-fbasic-block-sections=all", "-mllvm -hot-cold-split=true", "-fstack-clash-protection", "-fno-jump-tables", "-mllvm -enable-machine-outliner=always",
              "-fpatchable-function-entry=8", "-pg -mfentry", "-fsanitize=safe-stack", "-mspeculative-load-hardening", "-mlvi-cfi", "-mstack-alignment=64",
              "-ftrivial-auto-var-init=pattern", "-fzero-call-used-regs=all", "-fuse-ld=lld -Wl,-z,retpolineplt", "-Os -mllvm -enable-machine-outliner=always"],
    "both": ["-fcf-protection=full", "-fcf-protection=none", "-fstack-protector-all", "-fno-omit-frame-pointer", "-fomit-frame-pointer",
             "-fomit-frame-pointer", "-mno-red-zone", "-march=x86-64-v3", "-pg", "-finstrument-functions", "-fPIC", "-fno-pic -no-pie", "-pie -fPIE", "-flto",
             "-Wl,-z,lazy", "-Wl,-z,now", "-static", "-static-pie -fPIE", "-fuse-ld=gold", "-fuse-ld=lld", "-g", "-fno-jump-tables", "-falign-functions=1",
             "-ffunction-sections -Wl,--gc-sections", "-Wl,--no-eh-frame-hdr", "-Wl,-z,noseparate-code", "-fno-asynchronous-unwind-tables", "-Wl,--emit-relocs"],
}


def shapes(rng, compiler, plus, throws, text):
    """Returns the names of possible inner functions and leaves."""
    barred = (set() if plus else CPP) | (NO_EXCEPTION if throws else {"throw"}) | ({"nested"} if plus or compiler == "clang" else set())
    barred |= {"ms abi"} if compiler == "clang" else {"preserve"}
    barred |= {"resolver", "die by pointer"} if plus else set()
    barred |= {"resolver"} if compiler == "musl-gcc" or "-static" in text else set()
    barred |= ({"context", "huge"} if "split" in text or compiler == "musl-gcc" else set())
    return [name for name in INNER if name not in barred], [name for name in LEAVES if name not in barred]


def program_of(seed):
    """Returns the sources of a program, the command that builds it, and the callees and jumps of each function."""
    rng = random.Random(seed)
    compiler = rng.choice(["gcc", "gcc", "gcc", "clang", "clang", "musl-gcc"])
    plus = compiler != "musl-gcc" and rng.random() < 0.4
    flags = [rng.choice(["-O0", "-O1", "-O2", "-O2", "-O3", "-Os"]), *rng.sample(FLAGS["both"], rng.randint(1, 4))]
    flags += rng.sample(FLAGS["clang" if compiler == "clang" else "gcc"], rng.randint(0, 2))
    undescribed = not plus and rng.random() < 0.35
    flags += ["-fno-asynchronous-unwind-tables -fno-unwind-tables"] if undescribed else []
    text = " ".join(flags)
    text += " -fuse-ld=gold" if "-fsplit-stack" in text else ""
    is_accurate = not undescribed and not re.search("-O0|no-omit|realign|-pg|instrument|split", text)
    inner_of, leaf_of = shapes(rng, compiler, plus, plus and rng.random() < 0.6, text)
    count = rng.randint(10, 30)
    first_leaf = count - max(3, count // 4)
    split, plt = rng.randint(2, first_leaf), "@PLT" if "-fPIC" in text or rng.random() < 0.7 else ""
    legal, parts, used_shapes = {"h": ("handler", {first_leaf, count - 1}, set())}, [[], []], set()
    for number in range(count - 1, -1, -1):
        is_leaf = number >= first_leaf
        name = rng.choice(leaf_of if is_leaf else inner_of) if number else "catch" if plus else "plain"
        callees = [number] if is_leaf else rng.sample(range(number + 1, count), min(3, count - 1 - number))
        callees = (callees * 3)[:3]
        described = is_accurate and rng.random() < 0.5
        rows = {"moved": 128, "pushed": 8, "popped": -8, "back": -128}
        words = {row: f".cfi_adjust_cfa_offset {by}; " if described else "" for row, by in rows.items()}
        words["clobbers"] = CLOBBERS
        words |= {"f": f"f{number}", "n": rng.randint(2, 60), "signal": rng.choice(["SIGUSR1", "SIGUSR2"]), "plt": plt}
        words |= {letter: f"f{callee}" for letter, callee in zip("abc", callees)}
        body = (LEAVES if is_leaf else INNER)[name]
        if rng.random() < 0.15:
            attribute = rng.choice(ATTRIBUTES["clang" if compiler == "clang" else "gcc"])
            body = body.replace("F long {f}(", f"F __attribute__(({attribute})) long {{f}}(")
        callee_of = dict(zip("abc", callees))
        legal[number] = (name, {callee_of[letter] for letter in "abc" if f"{{{letter}}}" in body},
                         {callee_of[letter] for letter in TAILS.get(name, "")})
        parts[number >= split].append(body.format(**words))
        used_shapes.add(name)
    declared = "".join(f"long f{number}(long);" for number in range(count)) + "void h0(int);\n"
    timed = 0 if "split" in text else rng.choice([0, 0, 300, 1500])
    words = {"THREADS": rng.choice([0, 0, 1, 2]), "TIMED": timed, "FLAGS": rng.choice(["SA_RESTART", "SA_RESTART | SA_ONSTACK"])}
    main = re.sub("|".join(words), lambda match: str(words[match[0]]), MAIN)
    parts[0] += [f"F void h0(int s) {{ sink = f{first_leaf}(s) + f{count - 1}(s); }}", main]
    end = "\n#ifdef __cplusplus\n}\n#endif\n"
    shared = compiler != "musl-gcc" and "-static" not in text and rng.random() < 0.3
    compiler = {"gcc": "g++", "clang": "clang++"}[compiler] if plus else compiler
    is_stripped = undescribed and rng.random() < 0.6
    is_nameless = is_stripped and rng.random() < 0.5
    # The second half alone has no call frame information, as assembly in libraries.
    is_mixed = not (plus or undescribed or shared) and "-flto" not in text and rng.random() < 0.2
    marks = (" shared" if shared else "") + (" without .eh_frame" if is_stripped else "")
    marks += (" mixed" if is_mixed else "") + (" without symbols" if is_nameless else "") + (f", signals each {timed} us" if timed else "")
    return {"sources": {f"part{at}.{'cc' if plus else 'c'}": HEAD + declared + "\n".join(part) + end for at, part in enumerate(parts)},
            "compile": [compiler, "-w", *text.split()], "legal": legal, "shared": shared, "is_mixed": is_mixed, "is_stripped": is_stripped, "is_nameless": is_nameless,
            "name": f"{seed}: {compiler} {text}{marks} ({', '.join(sorted(used_shapes))})"}


def build(program, folder):
    """Builds a program, the second half as a library if it is shared. Returns false if the options do not fit together."""
    for name, text in program["sources"].items():
        with open(os.path.join(folder, name), "w") as out:
            out.write(text)
    first, second = program["sources"]
    compiled, end = program["compile"], ["-lm", "-lpthread"] + ([] if program["is_nameless"] else ["-rdynamic"])
    lines = [[*compiled, "-o", "program", first, second, *end]]
    if program["shared"]:
        lines = [[*compiled, "-fPIC", "-shared", "-o", "libpart.so", second, "-lm"],
                 [*compiled, "-o", "program", first, "-L.", "-lpart", f"-Wl,-rpath,{folder}", *end]]
    if program["is_mixed"]:
        lines = [[*compiled, "-c", first], [*compiled, *"-fno-asynchronous-unwind-tables -fno-unwind-tables -c".split(), second],
                 [*compiled, "-o", "program", "part0.o", "part1.o", *end]]
    outputs = ["program", "libpart.so"][:1 + program["shared"]]
    lines += [["objcopy", "-R", ".eh_frame", "-R", ".eh_frame_hdr", name] for name in outputs if program["is_stripped"]]
    for name in outputs if program["is_nameless"] else []:
        # The names are for the check only: the unwinder reads the program.
        lines += [["objcopy", "--only-keep-debug", name, f"{name}.debug"], ["strip", name],
                  ["objcopy", f"--add-gnu-debuglink={name}.debug", name]]
    # Some options do not fit together, and static programs with PIE options may crash at once.
    lines.append(["./program", "0.01"])
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "cwd": folder}
    return all(subprocess.run(line, **quiet).returncode == 0 for line in lines)


def reached(legal, number):
    """Returns the callees of a function that a stack may show, over the functions that jump."""
    found, waiting = set(), list(legal[number][1])
    while waiting:
        callee = waiting.pop()
        if callee not in found:
            found.add(callee)
            waiting += legal[callee][2]
    return found


def wrong_stacks(text, legal):
    """Returns the number of stacks with a function of the program, and the stacks with illegal pairs by pair."""
    pairs, stacks, wrong = {number: reached(legal, number) for number in legal} | {"timed": set()}, 0, {}
    for stack in text.split("\n\n"):
        names = [(line.split(None, 1) + [""])[1].strip() for line in stack.splitlines()[1:]]
        found = [re.match(r"(?:f(\d+)[vwgpy]?\b|(h)0\b|(timed)\b|(?:main|run)\b)", name) for name in names]
        nodes = [int(match[1]) if match[1] else match[2] or match[3] or "main" for match in found if match]
        stacks += bool(nodes)
        for callee, caller in zip(nodes, nodes[1:]):
            is_signal = callee == "timed" or (callee == "h" and caller in legal and legal[caller][0] == "signal")
            if not (is_signal or callee == caller or callee in pairs.get(caller, {0})):
                wrong.setdefault(f"{callee} <- {caller}", []).append(" <- ".join(names))
    return stacks, wrong
