"""The environment of programs that we start (security K2), and the search for programs (security T3).

A variable passes if it is in the table and does not sound like a secret. The user can name further ones; our own never
pass, even if named.

A program is found by an absolute path outside the working folders, so that it is not the project's own.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping

from mainspring.processes.paths import is_within

# By topic, so that gaps are visible.
NAMES: dict[str, str] = {
    "the user": "HOME USER LOGNAME SHELL PATH MAIL HOSTNAME",
    "language and time": "LANG LANGUAGE TZ LOCPATH",
    "the terminal": "TERM COLORTERM TERM_PROGRAM TERMINFO TERMINFO_DIRS COLUMNS LINES NO_COLOR FORCE_COLOR CLICOLOR",
    "folders": "TMPDIR TMP TEMP MANPATH INFOPATH",
    "the desktop": "DISPLAY WAYLAND_DISPLAY XAUTHORITY BROWSER",
    "editors and pagers": "EDITOR VISUAL PAGER LESS LS_COLORS",
    "agents of ssh and gpg": "SSH_AUTH_SOCK SSH_AGENT_PID GPG_TTY",  # a socket, not a secret
    "certificates": (
        "SSL_CERT_FILE SSL_CERT_DIR CURL_CA_BUNDLE REQUESTS_CA_BUNDLE NODE_EXTRA_CA_CERTS NIX_SSL_CERT_FILE "
        "GIT_SSL_CAINFO AWS_CA_BUNDLE PIP_CERT HTTPLIB2_CA_CERTS GRPC_DEFAULT_SSL_ROOTS_FILE_PATH"
    ),
    "proxies": (
        "HTTP_PROXY HTTPS_PROXY ALL_PROXY NO_PROXY FTP_PROXY http_proxy https_proxy all_proxy no_proxy ftp_proxy"
    ),
    "building": (
        "CC CXX CPP LD AR AS NM RANLIB CFLAGS CXXFLAGS CPPFLAGS LDFLAGS MAKEFLAGS MAKE CPATH C_INCLUDE_PATH "
        "CPLUS_INCLUDE_PATH LIBRARY_PATH LD_LIBRARY_PATH DYLD_LIBRARY_PATH PKG_CONFIG_PATH ACLOCAL_PATH "
        "CCACHE_DIR SDKROOT DEVELOPER_DIR MACOSX_DEPLOYMENT_TARGET"
    ),
    "Python": (
        "VIRTUAL_ENV PYTHONPATH PYTHONHOME PYTHONUNBUFFERED PYTHONDONTWRITEBYTECODE PYTHONUTF8 PYTHONIOENCODING "
        "PYTHONHASHSEED PYTHONWARNINGS PYENV_ROOT PYENV_VERSION PYENV_SHELL PIPENV_ACTIVE POETRY_ACTIVE "
        "POETRY_HOME MAMBA_ROOT_PREFIX MAMBA_EXE"
    ),
    "JavaScript": (
        "NODE_PATH NODE_ENV NODE_OPTIONS NODE_VERSION BUN_INSTALL DENO_DIR DENO_INSTALL PNPM_HOME "
        "YARN_CACHE_FOLDER COREPACK_HOME VOLTA_HOME FNM_DIR FNM_MULTISHELL_PATH N_PREFIX"
    ),
    "Go": (
        "GOPATH GOROOT GOBIN GOCACHE GOMODCACHE GOFLAGS GOPROXY GOPRIVATE GONOPROXY GONOSUMDB GOSUMDB GOOS GOARCH "
        "GOTOOLCHAIN CGO_ENABLED"
    ),
    "Rust": (
        "CARGO_HOME CARGO_TARGET_DIR CARGO_BUILD_JOBS RUSTUP_HOME RUSTUP_TOOLCHAIN RUSTUP_AUTO_INSTALL RUSTFLAGS "
        "RUSTC_WRAPPER RUST_BACKTRACE RUST_LOG"
    ),
    "Java": (
        "JAVA_HOME JDK_HOME JRE_HOME JAVA_OPTS JAVA_TOOL_OPTIONS CLASSPATH M2_HOME MAVEN_HOME MAVEN_OPTS "
        "GRADLE_HOME GRADLE_USER_HOME GRADLE_OPTS KOTLIN_HOME ANDROID_HOME ANDROID_SDK_ROOT ANDROID_NDK_HOME"
    ),
    "other languages": (
        "GEM_HOME GEM_PATH BUNDLE_PATH BUNDLE_GEMFILE RUBYLIB RUBYOPT RBENV_ROOT RBENV_VERSION COMPOSER_HOME "
        "PERL5LIB PERL_MM_OPT PERL_MB_OPT PERL_LOCAL_LIB_ROOT LUA_PATH LUA_CPATH MIX_HOME HEX_HOME MIX_ENV "
        "ERL_AFLAGS DOTNET_ROOT DOTNET_CLI_HOME NUGET_PACKAGES OPAM_SWITCH_PREFIX CAML_LD_LIBRARY_PATH "
        "OCAML_TOPLEVEL_PATH R_HOME R_LIBS JULIA_DEPOT_PATH GHCUP_INSTALL_BASE_PREFIX STACK_ROOT SDKMAN_DIR "
        "ASDF_DIR ASDF_DATA_DIR ZIG_GLOBAL_CACHE_DIR"
    ),
    "machines": (
        "CUDA_HOME CUDA_PATH CUDA_VISIBLE_DEVICES NVIDIA_VISIBLE_DEVICES OMP_NUM_THREADS MKL_NUM_THREADS "
        "DOCKER_HOST DOCKER_CONTEXT DOCKER_BUILDKIT KUBECONFIG WSL_DISTRO_NAME WSLENV"
    ),
    "where it runs": "CI GITHUB_ACTIONS GITLAB_CI DEBIAN_FRONTEND CONTAINER_NAME CODESPACES",
    "git": "GIT_AUTHOR_NAME GIT_AUTHOR_EMAIL GIT_COMMITTER_NAME GIT_COMMITTER_EMAIL GIT_SSH GIT_SSH_COMMAND",
    "packages": (
        "HOMEBREW_PREFIX HOMEBREW_CELLAR HOMEBREW_REPOSITORY NIX_PATH NIX_PROFILES IN_NIX_SHELL PIP_INDEX_URL "
        "PIP_EXTRA_INDEX_URL PIP_FIND_LINKS PIP_DISABLE_PIP_VERSION_CHECK PIP_DEFAULT_TIMEOUT UV_INDEX_URL "
        "UV_CACHE_DIR UV_PYTHON UV_COMPILE_BYTECODE"
    ),
}
STARTS = ("LC_", "XDG_", "CONDA_", "NVM_", "MISE_", "DIRENV_", "npm_config_cache", "npm_config_prefix")

SECRET = (
    "KEY", "TOKEN", "SECRET", "PASSWORD", "PASSWD", "PASSPHRASE", "CREDENTIAL", "PRIVATE_", "API_", "ACCESS_", "COOKIE",
    "BEARER",
)  # fmt: skip
SECRET_ENDS = ("_PAT", "_PWD", "_PW", "_PASS", "_AUTH")
OURS = ("ANTHROPIC", "CLAUDE", "MAINSPRING")  # our keys, addresses and settings

ADDED: dict[str, str] = {
    "CLAUDECODE": "1",  # tells scripts that an agent runs them
    "GIT_EDITOR": "true",  # there is no person to edit: git uses the message as it is
}

# The session bus leads to the user's keyring, which gives every key to every program that asks. Without the first
# variable, programs would find the bus by one of the others.
CLOSED = {"DBUS_SESSION_BUS_ADDRESS": "disabled:"}
_LEADS_TO_BUS = ("DBUS_SESSION_BUS_ADDRESS", "XDG_RUNTIME_DIR", "DISPLAY")

_PASSING = frozenset(" ".join(NAMES.values()).split())


def child_environment(
    environ: Mapping[str, str], *, settings: Mapping[str, str] | None = None, names: Iterable[str] = ()
) -> dict[str, str]:
    """`settings` are set as they are, `names` pass besides the table: the user asked for both. Ours never pass, and
    the session bus does not."""
    wanted = frozenset(names)
    found = {name: _public(value) for name, value in environ.items() if may_pass(name)}
    found |= {name: _public(value) for name, value in environ.items() if name in wanted}
    found |= ADDED | dict(settings or {})
    found |= CLOSED if any(name in environ or name in found for name in _LEADS_TO_BUS) else {}
    return {name: value for name, value in found.items() if not is_own_variable(name) or name in ADDED}


def may_pass(name: str) -> bool:
    return (name in _PASSING or name.startswith(STARTS)) and not sounds_secret(name) and not is_own_variable(name)


def sounds_secret(name: str) -> bool:
    upper = name.upper()
    return upper.endswith(SECRET_ENDS) or any(word in upper for word in SECRET)


def is_own_variable(name: str) -> bool:
    return name.upper().startswith(OURS)


def _public(value: str) -> str:
    """Addresses without the user name and password before their '@', in one or in a list of them."""
    if "@" not in value or "://" not in value:
        return value
    first, *rest = value.split("://")
    return "://".join([first, *[_host(part) for part in rest]])


def _host(part: str) -> str:
    """The text after a '://', up to the next one. A password may have an '@', so the last one before a '/' counts."""
    authority, slash, path = part.partition("/")
    words = authority.split(" ")  # in a list of addresses, only the first word is the authority
    return " ".join([words[0].rpartition("@")[2], *words[1:]]) + slash + path


USUAL = ("/bin", "/usr/bin", "/usr/local/bin", "/opt/homebrew/bin", "/run/current-system/sw/bin")


def find_program(name: str, *, path: str = "", outside: Iterable[str] = ()) -> str | None:
    """First in the system's folders, then along `path`. None: it was not found, or only where a project may have put
    it.
    """
    folders = (*USUAL, *[folder for folder in path.split(":") if folder.startswith("/")])
    kept_out = tuple([folder for folder in outside if folder.strip("/")])  # in '/' every program is inside it
    for folder in folders:
        place = f"{folder.rstrip('/')}/{name}"
        if os.access(place, os.X_OK) and not _in_any(place, kept_out):
            return place
    return None


def _in_any(place: str, folders: tuple[str, ...]) -> bool:
    real = os.path.realpath(place)
    return any(is_within(name, folder) for name in (place, real) for folder in folders)
