"""Every settings key of Claude Code, and its state here: supported, refused or unsupported (settled 38).

The names are those of the schema in Claude Code 2.1.325 (`scripts/settings_schema.py --compare` checks them); the
descriptions are our own. A key that restricts something and is not supported stops the start, because ignoring it
would grant rights that its author removed. `docs/settings-keys.md` is generated from this table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from enum import StrEnum
from typing import NamedTuple, cast


class Support(StrEnum):
    HONOURED = "honoured"
    REFUSED = "refused"  # it restricts something, and we cannot enforce it: the start is refused
    UNSUPPORTED = "unsupported"  # it has no effect, and a warning names it


class ClaudeCodeKey(NamedTuple):
    name: str
    support: Support
    note: str  # supported: how; refused: what it restricts; unsupported: why it has no effect
    harmless: tuple[object, ...] = ()  # values that request nothing: accepted without a warning
    off: tuple[str, ...] = ()  # tools that an untrusted folder loses by a refused key
    restricts: Callable[[object], bool] | None = None  # if only some values restrict; the others are unsupported


COMMANDS = ("Bash",)
READING = ("Bash", "Read", "Grep", "Glob")
WRITING = ("Bash", "Edit", "Write", "NotebookEdit")
EVERYTHING = ("Bash", "Edit", "Write", "NotebookEdit", "WebFetch", "WebSearch", "Agent", "Skill")

# --- supported: a row of `keys.py` implements it ----------------------------------------------------

_HONOURED = """\
allowManagedHooksOnly: only the administrator's hooks run
allowManagedMcpServersOnly: only the administrator's allowedMcpServers counts
allowManagedPermissionRulesOnly: only the administrator's allow rules count; --allowedTools does not
allowedMcpServers: only servers that an entry names, by name, command or URL, are started
alwaysThinkingEnabled: false switches thinking off
apiKeyHelper: a command that prints the key
autoCompactEnabled: false switches compaction off
autoMemoryEnabled: false switches memory notes off
autoMode.classifyAllShell: permission mode auto is refused, because its classifier here cannot enforce this
autoMode.hard_deny: permission mode auto is refused, because its classifier here cannot enforce this
autoMode.soft_deny: permission mode auto is refused, because its classifier here cannot enforce this
availableModels: other models are refused at the start, on a change and for subagents
availableModelsMatch: exact: an entry allows its own version only
claudeMdExcludes: memory files that match are not loaded
cleanupPeriodDays: older session files are removed; nothing is removed while it is unset
deniedMcpServers: servers that an entry names, by name, command or URL, are not started
deniedModels: these models are refused, for side calls too
disableAllHooks: no hooks and no status line, except the administrator's
disableAutoMode: permission mode auto is refused
disableSideloadFlags: --plugin-dir, --agents (also those of the SDK) and --mcp-config are refused
disabledMcpjsonServers: these servers of .mcp.json are not started
effortLevel: effort of each request
enableAllProjectMcpServers: start all servers of .mcp.json in a trusted folder
enabledMcpjsonServers: only these servers of .mcp.json are started
enforceAvailableModels: the default model must be available, too
env: variables for commands, and from the user's side for mainspring itself
fallbackModel: models to use if the main one is overloaded
fileCheckpointingEnabled: false: files are not stored before prompts, and cannot be rewound
hooks: commands that run at events
managedMcpServers: servers of the administrator; http and sse
maxEffortLevel: highest effort; the lowest one that is set counts
model: the model
outputStyle: built-in or from an output-styles folder
permissions.additionalDirectories: folders added to the working directory
permissions.allow: rules
permissions.ask: rules
permissions.defaultMode: permission mode
permissions.deny: rules
permissions.denyInsteadOfPrompting: calls that would need approval are denied
permissions.disableAutoMode: permission mode auto is refused
permissions.disableBypassPermissionsMode: permission mode bypassPermissions is refused
preferredNotifChannel: bell or desktop notification when a question waits, and after a long run
promptSuggestionEnabled: false switches suggestions off
sandbox.allowUnsandboxedCommands: false: no command may leave the sandbox
sandbox.autoAllowBashIfSandboxed: commands in the sandbox need no approval
sandbox.enabled: false switches the sandbox off; it is on by default
sandbox.excludedCommands: commands that run outside the sandbox
sandbox.failIfUnavailable: do not start without a sandbox
sandbox.filesystem.allowWrite: more folders that commands may write to
sandbox.filesystem.denyRead: paths that neither commands nor tools may read
sandbox.filesystem.denyWrite: paths that neither commands nor tools may write to
sandbox.network.allowManagedDomainsOnly: only the administrator's domains can be reached
sandbox.network.allowedDomains: domains that commands can reach
sandbox.network.deniedDomains: domains that neither commands nor WebFetch can reach
skillOverrides: hide a skill from the model (user-invocable-only), from you too (off), or list only its name (name-only)
statusLine.command: a command that prints the status line
statusLine.type: command
theme: colours of the terminal
editorMode: normal or vi keys in the input
"""

# --- supported by nature: what they restrict does not exist here -------------------------------------

_NOTHING_TO_RESTRICT = """\
$schema: for editors
allowedChannelPlugins: mainspring has no channels
allowedHttpHookUrls: mainspring runs no HTTP hooks
allowedMarketplaces: mainspring loads plugins from named folders only
blockedMarketplaces: mainspring loads plugins from named folders only
crossSessionInbound: sessions do not send each other messages
disableAgentView: mainspring has no agent view
disableArtifact: mainspring has no Artifact tool
disableBundledSkills: mainspring comes without skills
disableClaudeAiConnectors: mainspring does not connect to claude.ai
disableCommandPluginSources: mainspring loads plugins from named folders only
disableDeepLinkRegistration: mainspring registers no links
disablePluginDirectory: mainspring loads plugins from named folders only
disableRemoteControl: mainspring has no remote control
disableReplyCheck: mainspring has no reply check
disableSkillShellExecution: commands in skills are never run
disableWindowsBashCommandSplit: mainspring does not run on Windows
disableWorkflows: mainspring has no workflows
fastModePerSessionOptIn: mainspring has no fast mode
httpHookAllowedEnvVars: mainspring runs no HTTP hooks
isolatePeerMachines: sessions do not send each other messages
modelProposedGoals: mainspring has no goals
sandbox.filesystem.allowManagedReadPathsOnly: allowRead has no effect in any file
sandbox.network.strictAllowlist: hosts that are not allowed are always refused
strictKnownMarketplaces: mainspring loads plugins from named folders only
"""

# --- refused ---------------------------------------------------------------------------------------


def _sets_effort(value: object) -> bool:
    entries = cast("dict[str, object]", value).values() if isinstance(value, dict) else ()
    return any("maxEffortLevel" in cast("dict[str, object]", entry) for entry in entries if isinstance(entry, dict))


def _refused(name: str, note: str, off: tuple[str, ...] = (), *harmless: object) -> ClaudeCodeKey:
    return ClaudeCodeKey(name, Support.REFUSED, note, (*harmless, None), off)


_REFUSED = (
    _refused("agent", "the tools of the session to those of one agent", EVERYTHING, ""),
    _refused("allowedProviders", "which providers may be used"),
    _refused("forceLoginGatewayUrl", "where you may sign in"),
    _refused("forceLoginMethod", "how you may sign in"),
    _refused("forceLoginOrgUUID", "which organization you may sign in to"),
    _refused("forceRemoteSettingsRefresh", "the start to fresh settings of your organization", (), False),
    _refused("isolation.required", "where commands run", COMMANDS, False),
    ClaudeCodeKey(
        "modelSettings", Support.REFUSED, "the effort of a model", ({}, None), EVERYTHING, restricts=_sets_effort
    ),
    _refused(
        "permissions.blockFileToolReadsOutsideWorkingDirectories", "reading outside the folders", READING, False
    ),
    _refused("permissions.blockReadsOutsideWorkingDirectories", "reading outside the folders", READING, False),
    _refused("permissions.blockWritesOutsideWorkingDirectories", "writing outside the folders", WRITING, False),
    _refused("permissions.workingDirectoriesAsGiven", "which folders links may lead to", EVERYTHING, []),
    _refused("policyHelper", "the session by the settings that a program prints"),
    _refused("policyHelpers", "the session by the settings that a program prints", (), {}),
    _refused("requiredMaximumVersion", "which version of Claude Code may start"),
    _refused("requiredMinimumVersion", "which version of Claude Code may start"),
    _refused("sandbox.credentials.awsPairs", "which credentials commands can use", COMMANDS, []),
    _refused("sandbox.credentials.envVars", "which variables commands can see", COMMANDS, []),
    _refused("sandbox.credentials.files", "which credential files commands can read", READING, []),
    _refused("sandbox.credentials.sigv4", "which signatures commands can use", COMMANDS, {}),
    _refused("sandbox.network.httpProxyPort", "the network of commands to one proxy", COMMANDS),
    _refused("sandbox.network.socksProxyPort", "the network of commands to one proxy", COMMANDS),
    _refused("strictPluginOnlyCustomization", "skills, agents, hooks and MCP servers to those of plugins",
             EVERYTHING, False, []),
)  # fmt: skip

# --- unsupported: a reason, and the keys that have it ------------------------------------------------

_UNSUPPORTED = {
    "mainspring loads plugins from named folders only": """
        additionalMarketplaces appendPlugins channelsEnabled enabledPlugins extraKnownMarketplaces
        pluginConfigs pluginSuggestionMarketplaces pluginTrustMessage prependPlugins""",
    "mainspring does not use claude.ai": """
        agentPushNotifEnabled allowAllClaudeAiMcps attributionProject attributionProjectPolicy.default
        autoUploadSessions doneMeansMerged feedbackDrafts feedbackSurveyRate inputNeededNotifEnabled
        remote.defaultEnvironmentId remoteControl.shareHostProfile remoteControlAtStartup
        remoteTools.allowUnattendedServing responseComparisonEnabled syncClaudeAiPlugins syncClaudeAiSkills
        autoContinueAtUsageLimit""",
    "mainspring has no such feature": """
        advisorModel allowClaudeInChromeWithManagedMcp askUserQuestionTimeout autoDreamEnabled
        autoMode.allow autoMode.environment awaySummaryEnabled bashEditDiffEnabled
        breakReminder.breakThresholdMinutes breakReminder.enabled breakReminder.intervalMinutes
        breakReminder.message companyAnnouncements daemonColdStart defaultShell
        desktopSessionCleanupPeriodDays dialogExpiry enableArtifact enableWorkflows fastMode
        fileSuggestion.command fileSuggestion.type idleCompaction precomputeArmTokens
        precomputeCompactionEnabled processWrapper quietHours.enabled quietHours.end quietHours.start
        respondToBashCommands skipWorkflowUsageWarning sshConfigs sshHostCommands switchModelsOnFlag
        teammateMode totalTokensReminder totalTokensReminderAfterUserTurn totalTokensReminderBudget
        ultracode useAutoModeDuringPlan voice.autoSubmit voice.enabled voice.mode voiceEnabled
        workflowKeywordTriggerEnabled workflowSizeGuideline worktree.baseRef worktree.bgIsolation
        worktree.location worktree.sparsePaths worktree.symlinkDirectories isolation.persistHome""",
    "the terminal of mainspring cannot be customized": """
        autoScrollEnabled axScreenReader clawdFileProgressEnabled defaultView
        emojiCompletionEnabled footerLinksRegexes keybindingFlavor maxProseWidth modelPicker.options
        modelPicker.replaceBuiltInOptions prUrlTemplate prefersReducedMotion showClearContextOnPlanAccept
        showMessageTimestamps showThinkingSummaries showTurnDuration spellcheck.checker spellcheck.color
        spellcheck.enabled spellcheck.language spinnerTipsEnabled spinnerTipsOverride.excludeDefault
        spinnerTipsOverride.label spinnerTipsOverride.tips spinnerTipsOverride.tipsFile spinnerVerbs.mode
        spinnerVerbs.verbs statusLine.hideVimModeIndicator statusLine.padding statusLine.refreshInterval
        subagentStatusLine.command subagentStatusLine.type syntaxHighlightingDisabled
        terminalProgressBarEnabled terminalTitleFromRename timeFormat timeZone todoFeatureEnabled tui
        verbose viewMode vimInsertModeRemaps wheelScrollAccelerationEnabled""",
    "mainspring has its own settings for providers, keys and prices ('mainspring help settings')": """
        awsAuthRefresh awsCredentialExport gatewayInternalNetworks gcpAuthRefresh modelOverrides
        modelPricing.multiplier modelPricing.overrides otelHeadersHelper promptCacheTtl proxyAuthHelper
        subagentPromptCacheTtl xaaIdp.callbackPort xaaIdp.clientId xaaIdp.issuer""",
    "mainspring adds nothing to commits": """
        attribution.commit attribution.pr attribution.sessionUrl includeCoAuthoredBy includeGitInstructions""",
    "mainspring is updated by its package manager": "autoUpdates autoUpdatesChannel minimumVersion",
    "mainspring always combines the administrator's files in the same way ('mainspring help settings')": """
        managedSourcesBehavior parentSettingsBehavior wslInheritsWindowsSettings""",
    "mainspring uses fixed sizes and folders": """
        autoCompactWindow autoMemoryDirectory bashOutputMaxChars plansDirectory skillListingBudgetFraction
        skillListingMaxDescChars taskOutputMaxChars respectGitignore""",
    "put it into a memory file, such as CLAUDE.md": "claudeMd language",
    "the sandbox of mainspring is always stricter": """
        permissions.blockReadsExemptPaths sandbox.allowAppleEvents sandbox.allowNestedUserNamespaces
        sandbox.bwrapPath sandbox.credentials.allowPlaintextInject sandbox.enableWeakerNestedSandbox
        sandbox.enableWeakerNetworkIsolation sandbox.filesystem.allowRead sandbox.filesystem.disabled
        sandbox.ignoreViolations sandbox.network.allowAllUnixSockets sandbox.network.allowLocalBinding
        sandbox.network.allowMachLookup sandbox.network.allowUnixSockets
        sandbox.network.tlsTerminate.caCertPath sandbox.network.tlsTerminate.caKeyPath sandbox.ripgrep.args
        sandbox.ripgrep.command sandbox.socatPath""",
    "mainspring skips no confirmation": """
        permissions.skipDangerousModePermissionPrompt skipAutoPermissionPrompt
        skipDangerousModePermissionPrompt""",
    "mainspring has no preflight check for web pages": "skipWebFetchPreflight",
}  # fmt: skip

# Values that ask for what we do anyway, or switch off what does not exist: no warning is needed.
_HARMLESS: dict[str, tuple[object, ...]] = {
    **dict.fromkeys(("askUserQuestionTimeout", "dialogExpiry"), ("never",)),
    **dict.fromkeys(("attribution.commit", "attribution.pr"), ("",)),
    **dict.fromkeys(("respectGitignore", "skipWebFetchPreflight"), (True,)),
    "defaultShell": ("bash",),
    "enabledPlugins": ({},),
    "feedbackDrafts": ("off",),
    "feedbackSurveyRate": (0,),
    "remoteControl.shareHostProfile": ("off",),
    "worktree.bgIsolation": ("worktree",),
}
_NEEDS_WORDS_WHEN_FALSE = frozenset({"respectGitignore", "skipWebFetchPreflight"})

# Keys of earlier versions, which the current schema does not have.
EARLIER = frozenset({"autoUpdates", "permissions.skipDangerousModePermissionPrompt"})


def _lines(text: str) -> Iterator[tuple[str, str]]:
    for line in text.strip().splitlines():
        name, _, note = line.partition(": ")
        yield name, note


def _unsupported() -> Iterator[ClaudeCodeKey]:
    for note, names in _UNSUPPORTED.items():
        for name in names.split():
            off: tuple[object, ...] = () if name in _NEEDS_WORDS_WHEN_FALSE else (False,)
            yield ClaudeCodeKey(name, Support.UNSUPPORTED, note, (*off, *_HARMLESS.get(name, ()), None))


NOTHING_TO_RESTRICT = frozenset(name for name, _ in _lines(_NOTHING_TO_RESTRICT))

CLAUDE_CODE_KEYS: tuple[ClaudeCodeKey, ...] = (
    *[ClaudeCodeKey(name, Support.HONOURED, note) for name, note in _lines(_HONOURED + _NOTHING_TO_RESTRICT)],
    *_REFUSED,
    *_unsupported(),
)
BY_NAME = {key.name: key for key in CLAUDE_CODE_KEYS}


def is_harmless(key: ClaudeCodeKey, value: object) -> bool:
    """Compares types, too: in Python `0 == False`."""
    return any(type(value) is type(one) and value == one for one in key.harmless)
