"""Sources of the programs in benches/stacks."""


def big_c(path, functions=1000):
    """Writes a C program with this many functions."""
    with open(path, "w") as out:
        out.write("static int f_(int s,int n){return s%(n+1);}\n")
        for n in range(functions):
            out.write(
                f"int f{n}(int x){{int a[16];for(int i=0;i<16;i++)a[i]=x*i+{n};int s=0;"
                f"for(int i=0;i<16;i++)s+=a[i]^(x>>(i&7));return s>{n}?f_(s,{n}):s+{n};}}\n")


TEMPLATES = """
#include <algorithm>
#include <map>
#include <regex>
#include <string>
#include <tuple>
#include <vector>
template <int N> struct T { static std::map<int, std::vector<std::tuple<int, std::string>>> make() {
  auto m = T<N - 1>::make(); m[N].emplace_back(N, std::to_string(N));
  std::sort(m[N].begin(), m[N].end()); return m; } };
template <> struct T<0> { static std::map<int, std::vector<std::tuple<int, std::string>>> make() { return {}; } };
int main() { std::regex r("a+b*(c|d)"); return (int)T<120>::make().size(); }
"""

PYTHON = """
import json, re, random
random.seed(1)
def tree(n): return {"n": n, "c": [tree(n - 1) for _ in range(2)]} if n else {}
def fib(n): return n if n < 2 else fib(n - 1) + fib(n - 2)
for _ in range(4):
    s = json.dumps(tree(13)); json.loads(s); re.sub(r'"n": (\\d+)', r'\\1', s)
    sorted((random.random() for _ in range(200000)), key=lambda x: -x); fib(23)
"""

NODE = """
function fib(n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }
for (let i = 0; i < 8; i++) { fib(29); const o = {}; for (let k = 0; k < 200000; k++) o["k" + k] = { v: k };
  JSON.parse(JSON.stringify(o)); [...Array(200000).keys()].map(x => Math.sin(x)).sort((a, b) => a - b); }
"""

JAVA = """
import java.util.*; import java.util.stream.*;
public class Work { static int fib(int n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }
 public static void main(String[] a) { long s = 0; for (int i = 0; i < 12; i++) { s += fib(32);
  Map<String,Integer> m = new HashMap<>(); for (int k = 0; k < 300000; k++) m.put("k" + k, k);
  s += m.values().stream().sorted(Comparator.reverseOrder()).limit(1000).mapToInt(x -> x).sum(); } System.out.println(s); } }
"""

GO = """
package main
import ("fmt"; "sort"; "strings"; "sync")
func fib(n int) int { if n < 2 { return n }; return fib(n-1) + fib(n-2) }
func main() { var w sync.WaitGroup; for g := 0; g < 4; g++ { w.Add(1); go func() { defer w.Done()
 for i := 0; i < 6; i++ { fib(32); m := map[string]int{}; for k := 0; k < 200000; k++ { m[fmt.Sprint("k", k)] = k }
 ks := make([]string, 0, len(m)); for k := range m { ks = append(ks, k) }; sort.Strings(ks); _ = strings.Join(ks, ",") } }() }; w.Wait() }
"""

LISP = """
(defun leaf (n) (let ((s 1)) (declare (fixnum s n)) (dotimes (i n s) (setf s (logand (+ (* s 31) i) #xffff)))))
(defun rec (d n) (if (= d 0) (1+ (leaf n)) (1+ (rec (1- d) n))))
(dotimes (i 60) (rec 10 400000) (sort (loop for k below 30000 collect (mod (* k 7919) 30011)) #'<))
"""

SCHEME = """
(define (leaf n) (let loop ((i 0) (s 1)) (if (= i n) s (loop (+ i 1) (modulo (+ (* s 31) i) 1000003)))))
(define (rec d n) (if (= d 0) (+ 1 (leaf n)) (+ 1 (rec (- d 1) n))))
(let loop ((i 0)) (if (< i 30) (begin (rec 10 200000) (sort (iota 20000) >) (loop (+ i 1)))))
"""

LUA = """
local function leaf(n) local s = 1 for i = 1, n do s = (s * 31 + i) % 1000003 end return s end
local function rec(d, n) if d == 0 then return 1 + leaf(n) end return 1 + rec(d - 1, n) end
for i = 1, 200 do rec(10, 200000) local t = {} for k = 1, 3000 do t[k] = tostring(k) .. "x" end
  table.sort(t, function(a, b) return a > b end) string.rep("ab", 200):gsub("a", function() leaf(100) end) end
"""

ERLANG = """
-module(work). -export([main/0]).
leaf(0, S) -> S; leaf(N, S) -> leaf(N - 1, (S * 31 + N) rem 1000003).
rec(0, N) -> 1 + leaf(N, 1); rec(D, N) -> 1 + rec(D - 1, N).
loop(0, S) -> S; loop(K, S) -> L = lists:sort([X * 7 rem 1001 || X <- lists:seq(1, 3000)]),
  M = maps:from_list([{X, X} || X <- L]), loop(K - 1, S + rec(10, 100000) + maps:size(M)).
main() -> P = self(), [spawn(fun() -> P ! loop(400, 0) end) || _ <- [1, 2]], [receive X -> X end || _ <- [1, 2]], halt(0).
"""

HASKELL = """
module Main where
import Data.List (sort, foldl')
leaf :: Int -> Int
leaf n = go 0 1 where { go i s | i == n = s | otherwise = go (i + 1) ((s * 31 + i) `mod` 1000003) }
{-# NOINLINE leaf #-}
rec :: Int -> Int -> Int
rec 0 n = 1 + leaf n
rec d n = 1 + rec (d - 1) n
main :: IO ()
main = do { print (foldl' (\\s i -> s + rec 10 (200000 + i)) 0 [1 .. 300]); print (sum (take 10 (sort [(k * 7919) `mod` 300007 | k <- [1 .. 300000 :: Int]]))) }
"""

PHP = """<?php
function fib($n) { return $n < 2 ? $n : fib($n - 1) + fib($n - 2); }
for ($i = 0; $i < 6; $i++) { fib(24); $a = []; for ($k = 0; $k < 300000; $k++) $a["k$k"] = md5((string)$k);
  ksort($a); preg_replace('/[0-9]+/', 'x', implode(',', $a)); usort($a, fn($x, $y) => strcmp($x, $y)); }
"""

PERL = """
sub fib { my $n = shift; $n < 2 ? $n : fib($n - 1) + fib($n - 2) }
for (1 .. 4) { fib(22); my %h = map { ("k$_" => $_ * 7 % 1001) } 1 .. 200000;
  my @s = sort { $h{$a} <=> $h{$b} || $a cmp $b } keys %h; my $t = join ",", @s; $t =~ s/k(\\d+)/<$1>/g; }
"""

RUBY = """
def fib(n) n < 2 ? n : fib(n - 1) + fib(n - 2) end
4.times { fib(25); h = {}; 200_000.times { |k| h["k#{k}"] = k * 7 % 1001 }
  h.sort_by { |k, v| [v, k] }.map(&:first).join(",").gsub(/k(\\d+)/) { "<#{$1}>" } }
"""

OCAML = """
module M = Map.Make(String)
let rec fib n = if n < 2 then n else fib (n - 1) + fib (n - 2)
let () = for _ = 1 to 6 do ignore (fib 32);
  let m = ref M.empty in for k = 0 to 200000 do m := M.add (string_of_int k) k !m done;
  ignore (List.sort compare (List.map fst (M.bindings !m))) done
"""

# Requests many keys at once, so that the server has more work than its client.
CLIENT = """
import socket, time
for _ in range(100):
    try: s = socket.create_connection(("127.0.0.1", 7779)); break
    except OSError: time.sleep(0.05)
for k in range(2000): s.sendall(b"set k%d 0 0 64 noreply\\r\\n" % k + b"x" * 64 + b"\\r\\n")
ask = b"".join(b"get " + b" ".join(b"k%d" % (k + j) for j in range(90)) + b"\\r\\n" for k in range(0, 1800, 90))
end = time.time() + 4
while time.time() < end:
    s.sendall(ask); left = 20
    while left: left -= s.recv(1 << 20).count(b"END\\r\\n")
"""
