//! Kinds of work by the names of functions.

use rprof_profile::pattern::matches_name;

/// Which code has a kind's functions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    User,
    Kernel,
}

pub(crate) struct Kind {
    /// Noun for a sentence: "12% of the CPU time is …".
    pub(crate) label: &'static str,
    pub(crate) side: Side,
    /// [Patterns](rprof_profile::pattern) of functions, separated by spaces. `?` stands for a space
    /// in a name.
    pub(crate) functions: &'static str,
    /// Patterns of files that do nothing else, likewise.
    pub(crate) objects: &'static str,
    /// True if it counts inside of other kinds as well.
    pub(crate) is_first: bool,
    /// True if only functions that were not inlined count.
    pub(crate) is_outlined: bool,
    /// True if it counts only without another kind inside, as memory allocation in a container.
    pub(crate) is_outer: bool,
    /// Usual remedy; empty if there is none.
    pub(crate) remedy: &'static str,
}

impl Kind {
    pub(crate) fn has(&self, function: &str, object: &str) -> bool {
        // Versions and internal aliases of a symbol: `memcpy@GLIBC_2.14`, `__GI___strtod_l`.
        let function = function.split('@').next().unwrap_or(function);
        let function = function.strip_prefix("__GI_").unwrap_or(function);
        let has = |patterns: &str, name| {
            patterns
                .split(' ')
                .any(|pattern| matches_name(pattern, name))
        };
        // Methods of Rust: `<std::sys::sync::mutex::futex::Mutex>::lock`.
        let of_type = function.strip_prefix('<');
        has(self.functions, function)
            || of_type.is_some_and(|function| has(self.functions, function))
            || !self.objects.is_empty() && has(self.objects, object)
    }
}

const fn kind(label: &'static str, functions: &'static str, remedy: &'static str) -> Kind {
    Kind {
        label,
        side: Side::User,
        functions,
        objects: "",
        is_first: false,
        is_outlined: false,
        is_outer: false,
        remedy,
    }
}

/// All kinds. The first one with a function counts.
pub(crate) const KINDS: &[Kind] = &[
    Kind {
        label: "page faults: memory touched for the first time, after it was given back, or after a fork",
        side: Side::Kernel,
        functions: "asm_exc_page_fault exc_page_fault page_fault do_page_fault el0_da",
        objects: "",
        is_first: true,
        is_outlined: false,
        is_outer: false,
        remedy: "Memory that is kept and used again needs no further faults.",
    },
    Kind {
        label: "starting and ending processes and threads",
        side: Side::Kernel,
        functions: "__x64_sys_execve* __arm64_sys_execve* __x64_sys_exit_group \
         __arm64_sys_exit_group \
         do_exit __x64_sys_clone* __x64_sys_vfork __x64_sys_fork __arm64_sys_clone* \
         __do_sys_clone* kernel_clone ret_from_fork* do_group_exit",
        objects: "",
        is_first: true,
        is_outlined: false,
        is_outer: false,
        remedy: "",
    },
    Kind {
        is_first: true,
        ..kind(
            "compiling SQL statements",
            "sqlite3_prepare* sqlite3LockAndPrepare sqlite3RunParser PQprepare* \
             mysql_stmt_prepare*",
            "Prepare them once, and bind values.",
        )
    },
    Kind {
        objects: "*/libsqlite3.so*",
        ..kind(
            "SQL statements",
            "sqlite3_step sqlite3_exec sqlite3_get_table sqlite3_reset sqlite3_finalize \
             sqlite3_bind_* sqlite3_column_* sqlite3VdbeExec PQexec* PQsendQuery* \
             mysql_real_query* mysql_stmt_execute*",
            "If they are many and short, one statement for all rows costs less (N+1 queries).",
        )
    },
    kind(
        "the dynamic linker, which loads and links libraries at the start",
        "_dl_start _dl_start_user dl_main _dl_relocate_object* _dl_map_object* _dl_sysdep_start \
         _dl_open* dlopen*",
        "",
    ),
    Kind {
        objects: "*/re/_parser.py */re/_compiler.py */sre_parse.py */sre_compile.py",
        ..kind(
            "compiling regular expressions",
            "regcomp re_compile* pcre_compile* pcre2_compile* regex::builders::* \
         regex::regex::string::Regex::new regex_automata::meta::regex::Builder::* regex_syntax::* \
         std::__detail::_Compiler* std::__cxx11::basic_regex<* std::basic_regex<* regexp.Compile* \
         regexp.MustCompile* regexp.compile* regexp/syntax.Parse* regexp/syntax.Compile* \
         regexp/syntax.(*parser).* regexp/syntax.(*compiler).* regexp/syntax.(*Regexp).* java.util.regex.Pattern.compile* \
         v8::internal::RegExpImpl::Compile* v8::internal::RegExp::Compile* \
         v8::internal::Runtime_RegExpInitializeAndCompile*",
            "Compile them once, outside of the loop.",
        )
    },
    Kind {
        objects: "*/logging/__init__.py */logging/handlers.py */libspdlog.so* */liblog4cplus*",
        ..kind(
            "logging",
            "log.Print* log.(*Logger)* spdlog::* log::__private_api::* tracing_subscriber::* \
         env_logger::* org.apache.logging.* ch.qos.logback.* java.util.logging.*",
            "",
        )
    },
    kind(
        "throwing and catching exceptions",
        "_Unwind_RaiseException* _Unwind_Resume* __cxa_throw _Unwind_ForcedUnwind* \
         _Unwind_Backtrace* java.lang.Throwable.<init>* java.lang.Throwable.fillInStackTrace* \
         java_lang_Throwable::fill_in_stack_trace* PyErr_SetString PyErr_Format* \
         PyTraceBack_Here v8::internal::Isolate::Throw* v8::internal::ErrorUtils::*",
        "",
    ),
    Kind {
        objects: "*/python?.*/json/*.py */_json.cpython-*",
        ..kind(
            "reading and writing JSON",
            "encoding/json.* serde_json::* nlohmann::* rapidjson::* simdjson::* \
             Json::* cJSON_* json_loads* json_dumps* json_tokener_* yyjson_* \
             v8::internal::Builtin_Json* v8::internal::Json* com.fasterxml.jackson.* \
             com.google.gson.*",
            "",
        )
    },
    Kind {
        objects: "*/python?.*/copy.py",
        ..kind(
            "copying objects with all that they contain",
            "structuredClone* v8::internal::ValueSerializer::* v8::internal::ValueDeserializer::*",
            "",
        )
    },
    kind(
        "formatting and writing text",
        "printf fprintf vprintf vfprintf* snprintf sprintf vsnprintf* __printf* __vfprintf* \
         __fprintf* __snprintf* __sprintf* __vsnprintf* ___snprintf* ___fprintf* ___printf* puts \
         fputs _IO_puts _IO_fputs fwrite _IO_fwrite fflush _IO_fflush core::fmt::* \
         alloc::fmt::format* std::io::stdio::_print std::io::stdio::_eprint std::ostream::* \
         std::basic_ostream<* std::operator<<* std::__ostream_insert* std::endl* fmt.Fprint* \
         fmt.Print* fmt.Sprint* print?(*",
        "",
    ),
    kind(
        "memory allocation",
        "malloc free calloc realloc __libc_malloc* __libc_free* __libc_calloc* __libc_realloc* \
         _int_malloc _int_free* _int_realloc cfree malloc_consolidate posix_memalign \
         aligned_alloc operator?new* operator?delete* _Znwm _ZdlPv* __rust_alloc* __rust_dealloc* \
         __rust_realloc* __rdl_* __rustc::__rust_* __rustc::__rdl_* std::alloc::* alloc::alloc::* \
         je_malloc* je_free* je_calloc* je_realloc* je_sdallocx* mi_malloc* mi_free* mi_calloc* \
         mi_realloc* mi_heap_* tc_malloc* g_malloc* g_free runtime.mallocgc* runtime.newobject \
         runtime.makeslice runtime.growslice",
        "",
    ),
    kind(
        "garbage collection",
        "runtime.gcBgMarkWorker* runtime.bgsweep* runtime.gcAssistAlloc* gc_collect_main \
         gc_collect* v8::internal::Heap::CollectGarbage* v8::internal::Scavenge* \
         v8::internal::ConcurrentMarking::* v8::internal::MarkCompactCollector::* \
         v8::internal::Sweeper::* GCTaskThread::* G1CollectedHeap::* \
         PSParallelCompact::*",
        "",
    ),
    kind(
        "joining strings into new ones",
        "runtime.concatstring* std::operator+<char* java.lang.StringConcatHelper.* \
         PyUnicode_Append* PyUnicode_Concat unicode_concatenate",
        "Each join copies all characters again: append to one buffer.",
    ),
    kind(
        "searching arrays or lists from the start",
        "std::find<* std::__find_if<* core::slice::<impl*>::contains* \
         core::slice::iter::Iter<*>::any* core::slice::iter::Iter<*>::position* \
         core::slice::iter::Iter<*>::find* rb_ary_includes rb_ary_index list_contains \
         v8::internal::Builtin_ArrayIncludes* v8::internal::Builtin_ArrayIndexOf* \
         Builtins_ArrayIncludes* Builtins_ArrayIndexOf* java.util.ArrayList.contains* \
         java.util.ArrayList.indexOf*",
        "A set or map finds an element without reading all.",
    ),
    Kind {
        is_outer: true,
        ..kind(
            "searching and filling hash tables",
            "std::_Hashtable<* std::unordered_map<* std::unordered_set<* hashbrown::* \
             std::collections::hash::* runtime.mapaccess* \
             runtime.mapassign* internal/runtime/maps.* g_hash_table_* java.util.HashMap.*",
            "They are slow if many keys have one hash value.",
        )
    },
    Kind {
        is_outer: true,
        ..kind(
            "searching and filling ordered trees",
            "std::_Rb_tree<* std::map<* std::set<* alloc::collections::btree::* \
             java.util.TreeMap.*",
            "",
        )
    },
    kind(
        "type checks at run time (dynamic_cast)",
        "__dynamic_cast __cxxabiv1::__*_type_info::__do_dyncast*",
        "",
    ),
    kind(
        "spin locks, which use the CPU while they wait",
        "pthread_spin_lock __pthread_spin_lock* *spin_lock *spinlock_lock *SpinLock::lock* \
         *Spinlock::lock* spin::mutex::* std::atomic_flag::test_and_set* std::hint::spin_loop*",
        "A mutex lets other threads run meanwhile.",
    ),
    kind(
        "locks",
        "pthread_mutex_lock ___pthread_mutex_lock __pthread_mutex_lock* pthread_mutex_unlock \
         __pthread_mutex_unlock* ___pthread_mutex_unlock* __lll_lock_wait* lll_mutex_lock* \
         pthread_rwlock_* ___pthread_rwlock_* __pthread_rwlock* std::mutex::lock* std::sys::sync::mutex::* parking_lot* \
         sync.(*Mutex).* runtime.lock2 sem_wait sem_post __new_sem_* pthread_cond_* \
         ___pthread_cond_* __pthread_cond_*",
        "",
    ),
    kind(
        "yielding the CPU again and again",
        "sched_yield __sched_yield std::thread::yield_now* runtime.Gosched",
        "",
    ),
    kind(
        "going to sleep again and again (polling)",
        "usleep __usleep sleep __sleep nanosleep __nanosleep* ___nanosleep* clock_nanosleep \
         __clock_nanosleep* std::this_thread::sleep_* std::thread::sleep* time.Sleep",
        "Wait for the event itself: with a condition variable, poll(2) or inotify(7).",
    ),
    kind(
        "asking for the time",
        "clock_gettime __clock_gettime* __vdso_clock_gettime gettimeofday __gettimeofday* \
         __vdso_gettimeofday std::chrono::*::now* std::time::Instant::now \
         std::time::SystemTime::now time.Now localtime* __localtime* __tz_convert mktime \
         strftime* __strftime*",
        "",
    ),
    kind(
        "sorting",
        "qsort qsort_r __qsort* msort_with_tmp* std::sort<* std::__sort<* std::__introsort_loop<* \
         std::stable_sort<* core::slice::sort::* alloc::slice::<impl*sort* sort.* slices.*sort* list_sort* PyList_Sort rb_ary_sort* \
         v8::internal::*ArraySort* Builtins_ArrayPrototypeSort* java.util.TimSort.* \
         java.util.DualPivotQuicksort.*",
        "",
    ),
    kind(
        "copying memory",
        "memcpy memmove __memcpy* __memmove* runtime.memmove mempcpy \
         __mempcpy* strcpy* __strcpy* strcat* __strcat* strdup __strdup strncpy* __strncpy*",
        "",
    ),
    kind(
        "setting memory",
        "memset __memset* bzero explicit_bzero runtime.memclr*",
        "",
    ),
    kind(
        "scanning or comparing strings",
        "strlen __strlen* strnlen* __strnlen* strcmp __strcmp* strncmp __strncmp* strcasecmp* \
         __strcasecmp* memcmp __memcmp* bcmp strchr* __strchr* strrchr* __strrchr* memchr \
         __memchr* strstr __strstr* strtok* __strtok* strspn* __strspn* strcspn* __strcspn* \
         strpbrk* __strpbrk* memmem* __memmem*",
        "",
    ),
    kind(
        "reading numbers from text",
        "strtol* __strtol* ____strtol* strtoul* strtod* __strtod* ____strtod* strtof* atoi atol \
         atof sscanf* __sscanf* __isoc99_sscanf* __isoc23_* vsscanf* __vfscanf* _IO_vfscanf* \
         core::num::dec2flt*",
        "",
    ),
    Kind {
        objects: "*/_strptime.py",
        ..kind(
            "reading dates from text",
            "strptime __strptime* java.time.format.DateTimeFormatter.parse* time.Parse*",
            "",
        )
    },
    kind(
        "random numbers",
        "rand random __random* rand_r lrand48* std::mersenne_twister_engine<* rand::* \
         rand_chacha::*",
        "",
    ),
    Kind {
        label: "mathematical functions of the C library",
        side: Side::User,
        functions: "__ieee754_* __sin_fma* __cos_fma* __exp_fma* __log_fma* __pow_fma*",
        objects: "*/libm.so* */libm-* */libmvec.so*",
        is_first: false,
        is_outlined: false,
        is_outer: false,
        remedy: "",
    },
    Kind {
        label: "compression",
        side: Side::User,
        functions: "deflate deflate_fast deflate_slow deflate_stored inflate inflate_fast \
         inflate_table ZSTD_* LZ4_* lzma_* BZ2_* compress/*.*",
        objects: "*/libz.so* */libzstd.so* */liblz4.so* */liblzma.so* */libbz2.so* */libbrotli*",
        is_first: false,
        is_outlined: false,
        is_outer: false,
        remedy: "",
    },
    Kind {
        label: "cryptography",
        side: Side::User,
        functions: "sha256_* sha512_* SHA256_* SHA512_* AES_* crypto/*.*",
        objects: "*/libcrypto.so* */libssl.so* */libgcrypt.so* */libgnutls.so* */libsodium.so* \
         */libcrypt.so*",
        is_first: false,
        is_outlined: false,
        is_outer: false,
        remedy: "",
    },
    Kind {
        label: "small functions that an optimizing compiler inlines: the code is built without optimization",
        side: Side::User,
        functions: "std::vector<*>::operator[]* std::vector<*>::size* std::vector<*>::begin* \
         std::vector<*>::end* std::array<*>::operator[]* std::array<*>::size* \
         __gnu_cxx::__normal_iterator<* bool?__gnu_cxx::operator!=* __gnu_cxx::operator!=* \
         bool?__gnu_cxx::operator==* std::forward<* std::move<* std::unique_ptr<*>::operator* \
         core::iter::range::<impl?* <core::ops::range::Range<* core::slice::index::<impl?* \
         <core::slice::iter::Iter<* core::num::<impl?* <alloc::vec::Vec<*>?as?core::ops::index* \
         <usize?as?core::slice::index* <I?as?core::iter::traits::collect::IntoIterator>* \
         core::iter::range::*",
        objects: "",
        is_first: false,
        is_outlined: true,
        is_outer: false,
        remedy: "",
    },
];

/// Returns the name of a system call by a kernel function for it; empty for the entry of all.
pub(crate) fn syscall(function: &str) -> Option<&str> {
    const PREFIXES: [&str; 9] = [
        "__x64_sys_",
        "__arm64_sys_",
        "__ia32_compat_sys_",
        "__ia32_sys_",
        "__se_sys_",
        "__do_sys_",
        "ksys_",
        "do_sys_",
        "vfs_",
    ];
    const INNER: [(&str, &str); 5] = [
        ("mmap_pgoff", "mmap"),
        ("openat2", "openat"),
        ("open", "openat"),
        ("fsync_range", "fsync"),
        ("statx_path", "statx"),
    ];
    const ENTRIES: [&str; 4] = [
        "do_syscall_64",
        "entry_SYSCALL_64*",
        "do_el0_svc",
        "do_int80_*",
    ];
    if ENTRIES.iter().any(|entry| matches_name(entry, function)) {
        return Some("");
    }
    let found = PREFIXES
        .iter()
        .find_map(|prefix| function.strip_prefix(prefix))?;
    // Inner functions of several calls have names of their own.
    let inner = INNER.iter().find(|(inner, _)| *inner == found);
    Some(inner.map_or(found, |(_, name)| name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn label(function: &str) -> Option<&'static str> {
        KINDS
            .iter()
            .find(|kind| kind.has(function, "/x/app"))
            .map(|kind| kind.label)
    }

    #[test]
    fn functions_have_one_kind() {
        for (function, wanted) in [
            ("malloc", "memory allocation"),
            ("operator new(unsigned long)", "memory allocation"),
            ("__memmove_avx_unaligned_erms", "copying memory"),
            ("memcpy@GLIBC_2.14", "copying memory"),
            ("__strlen_avx2", "scanning or comparing strings"),
            ("regcomp", "compiling regular expressions"),
            ("vfprintf", "formatting and writing text"),
            ("usleep", "going to sleep again and again (polling)"),
            ("pthread_mutex_lock", "locks"),
            ("<std::sys::sync::mutex::futex::Mutex>::lock", "locks"),
            (
                "<hashbrown::map::HashMap<K,V,S,A>>::insert",
                "searching and filling hash tables",
            ),
            ("encoding/json.Unmarshal", "reading and writing JSON"),
            (
                "<core::slice::iter::Iter<T> as core::iter::traits::iterator::Iterator>::any",
                "searching arrays or lists from the start",
            ),
            (
                "regexp/syntax.(*parser).push",
                "compiling regular expressions",
            ),
            (
                "my_spin_lock",
                "spin locks, which use the CPU while they wait",
            ),
            ("sqlite3_prepare_v2", "compiling SQL statements"),
            ("sqlite3_step", "SQL statements"),
        ] {
            assert_eq!(label(function), Some(wanted), "{function}");
        }
        for other in [
            "main",
            "mallocator",
            "freeze",
            "sort_of",
            "spin_lock_statistics",
            "sleeper",
            "my_memcpy",
            "logic",
            // Matches, with a compiled expression.
            "regexp/syntax.(*Inst).MatchRunePos",
            "<shop::Mutex>::lock",
        ] {
            assert_eq!(label(other), None, "{other}");
        }
        assert_eq!(syscall("__x64_sys_read"), Some("read"));
        assert_eq!(syscall("ksys_read"), Some("read"));
        assert_eq!(syscall("ksys_mmap_pgoff"), Some("mmap"));
        assert_eq!(syscall("do_syscall_64"), Some(""));
        assert_eq!(syscall("read_zero"), None);
    }

    #[test]
    fn libraries_are_known_by_their_file() {
        let kind = KINDS
            .iter()
            .find(|kind| kind.has("anything", "/usr/lib/libz.so.1.2.13"));
        assert_eq!(kind.map(|kind| kind.label), Some("compression"));
    }
}
