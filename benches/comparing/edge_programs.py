"""Programs of benches/edges: each one line of shell that installs nothing."""

import os
import shutil
import subprocess
from dataclasses import dataclass

from . import stack_programs as sources

FIXTURES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../fixtures")
QUIET = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}


@dataclass(frozen=True)
class Program:
    """A program to record. The line runs in a folder with the inputs."""

    name: str
    # Debian's.
    package: str
    line: str
    # Programs that must exist; by default the first word of the line.
    tools: str = ""
    # Run once before, without being recorded.
    prepare: str = ""
    # Repeat the line until the time is up.
    repeat: bool = True

    def is_ready(self, folder):
        """Prepares the program. Returns whether it can run."""
        tools = (self.tools or self.line.split()[0]).split()
        if not all(shutil.which(tool) or os.path.exists(tool) for tool in tools):
            return False
        return not self.prepare or subprocess.run(["sh", "-c", self.prepare], cwd=folder, **QUIET).returncode == 0


EXCEPTIONS = """
#include <functional>
#include <map>
#include <stdexcept>
#include <string>
struct Shape { virtual ~Shape() {} virtual long area(int n) const = 0; };
struct Square : virtual Shape { long area(int n) const override { if (n % 7 == 0) throw std::runtime_error("seven"); return n * n; } };
struct Circle : virtual Shape { long area(int n) const override { return n * 3; } };
long each(const std::function<long(int)> &work, int n) { long sum = 0; for (int i = 0; i < n; i++) sum += work(i); return sum; }
int main() {
  Square square; Circle circle; std::map<std::string, long> all; long sum = 0;
  for (int round = 0; round < 3000; round++) {
    const Shape &shape = round % 2 ? (const Shape &)square : circle;
    try { sum += each([&](int i) { return shape.area(i + 1); }, 60); } catch (const std::exception &error) { sum += error.what()[0]; }
    all[std::to_string(round % 997)] += sum;
  }
  return all.size() == 1;
}
"""

FORTRAN = """
program work
  implicit none
  real(8) :: a(200,200), b(200,200), c(200,200)
  integer :: k
  call random_number(a); call random_number(b)
  do k = 1, 40
    c = matmul(a, b); a = sin(c / (1d0 + maxval(abs(c))))
  end do
  print *, fib(30), sum(a)
contains
  recursive integer function fib(n) result(r)
    integer, intent(in) :: n
    if (n < 2) then; r = n; else; r = fib(n - 1) + fib(n - 2); end if
  end function
end program
"""

R = """
f <- function(n) if (n < 2) n else f(n - 1) + f(n - 2)
f(21); x <- matrix(runif(250000), 500); for (i in 1:4) x <- solve(x + diag(500)); s <- sort(sapply(1:20000, function(i) i %% 97))
d <- data.frame(a = runif(5000), b = 1:5000); print(coef(lm(a ~ b, d))); print(length(s))
"""

CRYPTO = """
const crypto = require('crypto'), zlib = require('zlib');
const data = crypto.randomBytes(1 << 20); let n = 0;
for (let i = 0; i < 12; i++) {
  n += crypto.createHash('sha512').update(data).digest()[0];
  const c = crypto.createCipheriv('aes-256-gcm', data.subarray(0, 32), data.subarray(32, 44)); n += c.update(data).length;
  n += zlib.gzipSync(data.subarray(0, 1 << 18)).length; n += JSON.stringify(JSON.parse(JSON.stringify([...data.subarray(0, 20000)]))).length;
}
crypto.pbkdf2Sync('a', 'b', 30000, 64, 'sha256'); console.log(n);
"""

CTYPES = """
import ctypes, json, re, zlib, hashlib, pickle, random
CMP = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_int), ctypes.POINTER(ctypes.c_int))
libc = ctypes.CDLL(None)
for _ in range(3):
    values = (ctypes.c_int * 3000)(*[random.randrange(9999) for _ in range(3000)])
    libc.qsort(values, 3000, 4, CMP(lambda a, b: a[0] - b[0]))
    text = json.dumps({str(k): [k] * 5 for k in range(20000)}); json.loads(text); re.sub(r"(\\d+)", r"<\\1>", text[:200000])
    zlib.compress(text.encode()); hashlib.sha3_256(text.encode()).hexdigest(); pickle.loads(pickle.dumps(list(values)))
    sorted(range(100000), key=lambda k: -k % 1013)
"""

NUMPY = """
import numpy as np
a = np.random.rand(400, 400)
for _ in range(4): np.linalg.svd(a); np.fft.fft2(a); a = a @ a / 400; np.sort(a, axis=None); np.einsum('ij,jk->ik', a[:90,:90], a[:90,:90])
"""

GO = """
package main
import ("crypto/sha256"; "encoding/json"; "fmt"; "regexp"; "sort"; "strings"; "sync")
func fib(n int) int { if n < 2 { return n }; return fib(n-1) + fib(n-2) }
func work(k int) int {
	m := map[string]int{}
	for i := 0; i < 20000; i++ { m[fmt.Sprint(i*k)] = i }
	b, _ := json.Marshal(m); var back map[string]int; json.Unmarshal(b, &back)
	keys := make([]string, 0, len(m)); for key := range m { keys = append(keys, key) }; sort.Strings(keys)
	s := regexp.MustCompile(`(\\d)(\\d)`).ReplaceAllString(strings.Join(keys, ","), "$2$1")
	defer func() { recover() }()
	if k%3 == 0 { var p *int; *p = 1 }
	return len(s) + int(sha256.Sum256(b)[0]) + fib(25)
}
func main() { var wait sync.WaitGroup; for k := 0; k < 12; k++ { wait.Add(1); go func(k int) { defer wait.Done(); work(k) }(k) }; wait.Wait() }
"""

CGO = """
package main
/*
#include <stdlib.h>
static int goes(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }
static long leaf(int n) { volatile long s = 0; for (int i = 0; i < n; i++) s += i; return s; }
static long mid(int n) { int v[500]; for (int i = 0; i < 500; i++) v[i] = i * 7919 % 1013; qsort(v, 500, sizeof *v, goes); return leaf(n) + v[1]; }
*/
import "C"
func run(n int) int { return int(C.mid(C.int(n))) + 1 }
func main() { s := 0; for i := 0; i < 3000; i++ { s += run(i) }; println(s) }
"""

SERVER = """
import http.server, threading, os
class H(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *a): pass
s = http.server.ThreadingHTTPServer(("127.0.0.1", 0), H); print(s.server_port, flush=True); s.serve_forever()
"""

VALGRIND_TARGET = "int main(void){volatile long s=0;for(long i=0;i<30000000;i++)s+=i*s;return 0;}"


def write_inputs(folder):
    """Writes sources and data."""
    inputs = {
        "exceptions.cc": EXCEPTIONS, "work.f90": FORTRAN, "work.R": R, "crypto.js": CRYPTO,
        "ctypes_work.py": CTYPES, "numpy_work.py": NUMPY, "work.go": GO, "cgo.go": CGO, "server.py": SERVER,
        "loop.c": VALGRIND_TARGET, "t.cpp": sources.TEMPLATES, "w.py": sources.PYTHON, "w.js": sources.NODE,
        "Work.java": sources.JAVA, "w.lisp": sources.LISP, "w.scm": sources.SCHEME, "w.lua": sources.LUA,
        "work.erl": sources.ERLANG, "w.php": sources.PHP, "w.pl": sources.PERL, "w.rb": sources.RUBY, "w.ml": sources.OCAML,
    }
    for name, text in inputs.items():
        with open(os.path.join(folder, name), "w") as out:
            out.write(text)
    for name in ("assembly.c", "callbacks.c", "realigned.c", "burn.h"):
        shutil.copy(os.path.join(FIXTURES, name), folder)
    sources.big_c(os.path.join(folder, "big.c"))
    seed = 1
    with open(os.path.join(folder, "data"), "wb") as out:
        for n in range(200000):
            seed = (seed * 6364136223846793005 + 1442695040888963407) % 2**64
            out.write(f"{n} {seed >> 40} some words that repeat {seed % 97}\n".encode() * 2)
    with open(os.path.join(folder, "short"), "wb") as out, open(os.path.join(folder, "data"), "rb") as data:
        out.write(data.read(2 << 20))
    with open(os.path.join(folder, "data.json"), "w") as out:
        out.write("[" + ",".join(f'{{"key":{n},"value":"{n * 7919 % 1013}"}}' for n in range(60000)) + "]")


def speed(what):
    return f"openssl speed -seconds 1 {what}"


SQL = ("WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x+1 FROM c LIMIT 600000) SELECT count(*), sum(x*x%7) FROM c; "
       "CREATE TABLE t(a, b); WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x+1 FROM c LIMIT 200000) INSERT INTO t SELECT "
       "x*7919%1013, hex(x) FROM c; CREATE INDEX i ON t(b); SELECT a, count(*), max(b) FROM t GROUP BY a ORDER BY 2, 3 LIMIT 9;")
VIDEO = "ffmpeg -v error -f lavfi -i testsrc2=size=640x360:duration=20 -threads 2"
REPOSITORY = os.environ.get("RPROF_BENCH_REPO", os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
GO_COMPILER = shutil.which("go") or "/usr/lib/go-1.19/bin/go"
GO_BUILD = f"GOCACHE=$PWD/gocache GO111MODULE=off {GO_COMPILER} build"

PROGRAMS = [
    Program("openssl-sha256", "openssl", speed("-evp sha256")),
    Program("openssl-sha512", "openssl", speed("-evp sha512")),
    Program("openssl-sha1", "openssl", speed("-evp sha1")),
    Program("openssl-aes-gcm", "openssl", speed("-evp aes-256-gcm")),
    Program("openssl-aes-cbc", "openssl", speed("-evp aes-128-cbc-hmac-sha256")),
    Program("openssl-chacha", "openssl", speed("-evp chacha20-poly1305")),
    Program("openssl-rsa", "openssl", speed("rsa2048")),
    Program("openssl-ecdsa", "openssl", speed("ecdsap256")),
    Program("openssl-x25519", "openssl", speed("ecdhx25519 ed25519")),
    Program("gcc", "gcc", "gcc -O2 -c big.c -o big.o"),
    Program("gcc -O0 -g", "gcc", "gcc -O0 -g -c big.c -o big0.o"),
    Program("g++", "g++", "g++ -O2 -c t.cpp -o t.o"),
    Program("clang", "clang", "clang -O2 -c big.c -o bigc.o"),
    Program("clang++", "clang", "clang++ -O1 -c t.cpp -o tc.o"),
    Program("opt", "llvm-14", "opt-14 -O3 big.ll -o big.bc", tools="opt-14 clang", prepare="clang -O1 -S -emit-llvm big.c -o big.ll"),
    Program("llvm-objdump", "llvm-14", "llvm-objdump -d --no-show-raw-insn big.o", prepare="gcc -O2 -c big.c -o big.o"),
    Program("objdump", "binutils", "objdump -dr big.o", prepare="gcc -O2 -c big.c -o big.o"),
    Program("as", "binutils", "as big.s -o biga.o", prepare="gcc -O1 -S big.c -o big.s"),
    Program("ld", "binutils", "ld -r big.o big.o -o two.o -z muldefs", prepare="gcc -O2 -g -c big.c -o big.o"),
    Program("python3", "python3", "python3 w.py"),
    Program("python3 -c ctypes", "python3", "python3 ctypes_work.py"),
    Program("numpy", "python3-numpy", "python3 numpy_work.py", prepare="python3 -c 'import numpy'"),
    Program("node", "nodejs", "node w.js"),
    Program("node crypto", "nodejs", "node crypto.js"),
    Program("node --jitless", "nodejs", "node --jitless w.js"),
    Program("perl", "perl", "perl w.pl"),
    Program("ruby", "ruby", "ruby w.rb"),
    Program("lua", "lua5.4", "lua5.4 w.lua"),
    Program("luajit", "luajit", "luajit w.lua"),
    Program("php", "php-cli", "php w.php"),
    Program("tclsh", "tcl", "tclsh tcl.tcl", prepare="echo 'proc f n {if {$n<2} {return $n}; expr {[f [expr $n-1]]+[f [expr $n-2]]}}; f 20; "
            "for {set i 0} {$i<9000} {incr i} {lappend l [string repeat x$i 3]}; puts [llength [lsort [regsub -all x $l y]]]' >tcl.tcl"),
    Program("sbcl", "sbcl", "sbcl --script w.lisp"),
    Program("guile", "guile-3.0", "guile --no-auto-compile w.scm"),
    Program("erl", "erlang-base", "erl -noshell -pa . -eval 'work:main().'", tools="erl erlc", prepare="erlc work.erl"),
    Program("java", "default-jdk-headless", "java Work.java"),
    Program("javac", "default-jdk-headless", "javac -d classes Work.java"),
    Program("R", "r-base-core", "Rscript work.R"),
    Program("ocaml", "ocaml-nox", "./w-ml", tools="ocamlopt", prepare="ocamlopt -o w-ml w.ml"),
    Program("gfortran", "gfortran", "./fortran", tools="gfortran", prepare="gfortran -O2 -o fortran work.f90"),
    Program("go", "golang-1.19-go", "./go-work", tools=GO_COMPILER, prepare=f"{GO_BUILD} -o go-work work.go"),
    Program("go build", "golang-1.19-go", f"rm -rf gc2; GOCACHE=$PWD/gc2 GO111MODULE=off {GO_COMPILER} build -o go-again work.go",
            tools=GO_COMPILER),
    Program("cgo", "golang-1.19-go", "./go-cgo", tools=GO_COMPILER, prepare=f"{GO_BUILD} -o go-cgo cgo.go"),
    Program("cargo check", "cargo", "rm -rf ct; cargo check -q --offline --manifest-path cargo/Cargo.toml --target-dir ct",
            prepare="mkdir -p cargo/src && printf '[package]\\nname=\"x\"\\nversion=\"0.0.0\"\\nedition=\"2021\"\\n[workspace]\\n' >cargo/Cargo.toml && "
                    "seq 300 | sed 's/.*/pub fn f&(x: \\&str) -> Vec<String> { x.split(\",\").map(|y| format!(\"{y}&\")).collect() }/' >cargo/src/lib.rs"),
    Program("rustc", "rustc", "rustc -O --crate-type lib cargo/src/lib.rs --out-dir .",
            prepare="mkdir -p cargo/src && seq 300 | sed 's/.*/pub fn f&(x: \\&str) -> Vec<String> { x.split(\",\").map(|y| format!(\"{y}&\")).collect() }/' "
                    ">cargo/src/lib.rs"),
    Program("callbacks", "gcc", "./callbacks", tools="gcc", prepare="gcc -O2 -o callbacks callbacks.c"),
    Program("callbacks -static", "gcc", "./callbacks-static", tools="gcc", prepare="gcc -O2 -static -o callbacks-static callbacks.c"),
    Program("callbacks with frame pointers", "gcc", "./callbacks-fp", tools="gcc",
            prepare="gcc -O2 -fno-omit-frame-pointer -fno-asynchronous-unwind-tables -o callbacks-fp callbacks.c"),
    Program("callbacks without CFI", "clang", "./callbacks-bare", tools="clang",
            prepare="clang -O2 -fomit-frame-pointer -fno-asynchronous-unwind-tables -fno-unwind-tables -o callbacks-bare callbacks.c"),
    Program("callbacks with split stacks", "gcc", "./callbacks-split", tools="gcc ld.gold",
            prepare="gcc -O2 -fsplit-stack -fuse-ld=gold -o callbacks-split callbacks.c"),
    Program("callbacks with thunks", "gcc", "./callbacks-thunks", tools="gcc",
            prepare="gcc -O2 -fcf-protection=none -mindirect-branch=thunk -mfunction-return=thunk -fno-asynchronous-unwind-tables "
                    "-o callbacks-thunks callbacks.c"),
    Program("assembly", "gcc", "./assembly", tools="gcc", prepare="gcc -O2 -fomit-frame-pointer -o assembly assembly.c"),
    Program("realigned", "gcc", "./realigned", tools="gcc", prepare="gcc -O2 -o realigned realigned.c"),
    Program("exceptions", "g++", "./exceptions", tools="g++", prepare="g++ -O2 -o exceptions exceptions.cc"),
    Program("exceptions of clang", "clang", "./exceptions-clang", tools="clang++", prepare="clang++ -O2 -o exceptions-clang exceptions.cc"),
    Program("ffmpeg x264", "ffmpeg", f"{VIDEO} -c:v libx264 -f null -"),
    Program("ffmpeg x265", "ffmpeg", f"{VIDEO} -c:v libx265 -x265-params log-level=none -f null -"),
    Program("ffmpeg vp9", "ffmpeg", f"{VIDEO} -c:v libvpx-vp9 -f null -"),
    Program("ffmpeg mpeg4", "ffmpeg", f"{VIDEO} -c:v mpeg4 -vf scale=1280:720,unsharp -f null -"),
    Program("ffmpeg decode", "ffmpeg", "ffmpeg -v error -threads 2 -i clip.mp4 -vf scale=320:180 -f null -", tools="ffmpeg",
            prepare=f"{VIDEO} -c:v libx264 -y clip.mp4"),
    Program("ffmpeg audio", "ffmpeg", "ffmpeg -v error -f lavfi -i sine=frequency=440:duration=120 -c:a aac -b:a 96k -f null -"),
    Program("sqlite3", "sqlite3", f'sqlite3 :memory: "{SQL}"'),
    Program("zstd", "zstd", "zstd -q -9 -T2 -c data"),
    Program("zstd -d", "zstd", "zstd -q -d -c data.zst", prepare="zstd -q -f data -o data.zst"),
    Program("xz", "xz-utils", "xz -T2 -5 -k -c data"),
    Program("gzip", "gzip", "gzip -c data"),
    Program("bzip2", "bzip2", "bzip2 -c short"),
    Program("lz4", "lz4", "lz4 -9 -c data"),
    Program("zip", "zip", "rm -f x.zip; zip -q x.zip data", tools="zip"),
    Program("tar", "tar", "tar czf x.tar.gz data big.c"),
    Program("git log", "git", f"git -C {REPOSITORY} log --stat -p -n 300"),
    Program("git gc", "git", "git -C clone repack -adfq", prepare=f"rm -rf clone; git clone -q --bare {REPOSITORY} clone", tools="git"),
    Program("make", "make", "make -B -s all", prepare="{ echo all: $(seq -s' ' 400); seq 400 | sed 's/.*/&:\\n\\t@:/'; } >Makefile"),
    Program("gdb", "gdb", "gdb -batch -nx -ex 'info functions f1' -ex 'disassemble f10' -ex 'info types .' bigg.o",
            prepare="gcc -O1 -g -c big.c -o bigg.o"),
    Program("valgrind", "valgrind", "valgrind -q ./loop", prepare="gcc -O1 -o loop loop.c"),
    Program("qemu-user", "qemu-user", "qemu-x86_64 ./loop", prepare="gcc -O1 -o loop loop.c"),
    Program("convert", "imagemagick", "convert -size 700x700 plasma: -blur 0x4 -resize 60% -rotate 11 o.png"),
    Program("convert jpeg", "imagemagick", "convert -size 900x900 gradient:red-blue -swirl 90 -quality 90 o.jpg && convert o.jpg -sharpen 0x2 o2.jpg", tools="convert"),
    Program("bash", "bash", "bash -c 's=0; for ((i=0;i<60000;i++)); do s=$((s+i%7)); a[$i]=x$s; done; echo ${a[@]//1/2} | wc -c'"),
    Program("dash", "dash", "dash -c 'i=0; while [ $i -lt 100000 ]; do i=$((i+1)); case $i in *7) x=${i#1};; esac; done'"),
    Program("awk", "mawk", "awk '{ n[$2 % 1013]++; s += length($0); sub(/words/, \"w\"); l = l < $0 ? $0 : l } END { for (k in n) s += n[k]; print s, l }' data"),
    Program("sed", "sed", "sed -E 's/([0-9]+) ([0-9]+)/\\2-\\1/; /9{3}/d; y/abc/xyz/' data"),
    Program("grep", "grep", "grep -cE '(1|2)[0-9]+7.*(words|that).*[3-5]$' data"),
    Program("sort", "coreutils", "sort --parallel=2 -k2,2n -k1,1r data"),
    Program("find", "findutils", "find /usr/share /usr/lib -name '*.[ch]*' -size +3 -printf '%p %s\\n'"),
    Program("bc", "bc", "echo 'scale=400; a(1)*4; e(3); 7^9999 % 10007; define f(n){if(n<2)return n;return f(n-1)+f(n-2)}; f(18)' | bc -l", tools="bc"),
    Program("jq", "jq", "jq '[.[] | select(.key % 3 == 0) | .value | tonumber] | sort | add' data.json"),
    Program("curl", "curl", "python3 server.py >port & p=$!; sleep 0.5; port=$(cat port); for i in $(seq 40); do curl -s "
            "http://127.0.0.1:$port/data -o got & curl -s http://127.0.0.1:$port/data.json --compressed -o got2; done; kill $p; wait", tools="curl python3"),
    Program("diff", "diffutils", "diff data changed", prepare="sed 's/7 /8 /' data >changed"),
    Program("gpg", "gpg", "gpg --batch --yes --passphrase x --pinentry-mode loopback --homedir . -c -o enc data"),
    Program("sha256sum", "coreutils", "sha256sum data short big.c; md5sum data; b2sum data; cksum data", tools="sha256sum"),
    Program("vim", "vim", "vim -Nu NONE -es -c '%s/words/w/g' -c 'sort n' -c 'qa!' short", tools="vim"),
    Program("gs", "ghostscript", "gs -q -dBATCH -dNOPAUSE -sDEVICE=png16m -r150 -o page.png /usr/share/ghostscript/*/examples/tiger.eps"),
    Program("xsltproc", "xsltproc", "xsltproc --version && xmllint --noout --stream doc.xml", tools="xsltproc xmllint",
            prepare="{ echo '<a>'; seq 90000 | sed 's|.*|<b c=\"&\">&</b>|'; echo '</a>'; } >doc.xml"),
    Program("gnuplot", "gnuplot-nox", "gnuplot -e \"set term png; set output 'x.png'; set pm3d; set isosamples 150; splot sin(x)*cos(y)\""),
]
