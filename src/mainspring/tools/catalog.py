"""Specs of the built-in tools. Written by `scripts/tool_catalog.py`: change the tools instead."""

# ruff: noqa: E501
from typing import Any

SPECS: dict[str, tuple[str, dict[str, Any]]] = {
    "Bash": (
        "Run a command in bash and see what it prints. Each call is a fresh shell: the working folder stays from call to call, variables do not. There is no terminal and no standard input, so commands that ask something fail: use flags such as '-y' or '--no-edit'. Nothing that a command starts outlives the call, except with 'run_in_background'.\n- For files use Read, Grep, Glob, Edit and Write, not cat, grep, find, sed or echo.\n- Quote paths that hold spaces. Use absolute paths rather than cd.\n- Join commands that need each other with '&&'; independent ones are several calls in one reply.\n- Long output is cut in the middle and stored whole; the result says where.\n- Commands without an end (servers, watchers): 'run_in_background', then BashOutput and KillShell.",
        {
            "type": "object",
            "properties": {
                "command": {"type": "string", "description": "The command."},
                "timeout": {
                    "type": "integer",
                    "minimum": 1,
                    "description": "Milliseconds; 120000 unless given, 600000 at most.",
                },
                "description": {"type": "string", "description": "What it does, in five to ten words."},
                "run_in_background": {
                    "type": "boolean",
                    "description": "Return at once with an id; the command goes on.",
                },
                "dangerouslyDisableSandbox": {
                    "type": "boolean",
                    "description": "Leave the sandbox: the user is asked.",
                },
            },
            "required": ["command"],
        },
    ),
    "BashOutput": (
        "What a background command has printed since you last looked, and whether it still runs.",
        {
            "type": "object",
            "properties": {
                "bash_id": {"type": "string", "description": "The id."},
                "filter": {
                    "type": "string",
                    "description": "Show only lines that match this regular expression (grep -E).",
                },
            },
            "required": ["bash_id"],
        },
    ),
    "KillShell": (
        "End a background command, with everything it started.",
        {
            "type": "object",
            "properties": {"shell_id": {"type": "string", "description": "The id."}},
            "required": ["shell_id"],
        },
    ),
    "Read": (
        "Read a file. Each line of text comes as its number, a tab, and the line as it is: number and tab are no part of the file. At most 2000 lines at once, and lines over 2000 characters are cut; choose others with 'offset' and 'limit'. Images (PNG, JPEG, GIF, WebP), PDF documents of up to 100 pages (of longer ones, some 'pages') and notebooks (.ipynb, with outputs) are shown as such. Not for folders: use Glob, or ls in Bash. A file must be read before Edit or Write can change it.",
        {
            "type": "object",
            "properties": {
                "file_path": {"type": "string", "description": "The file."},
                "offset": {"type": "integer", "minimum": 0, "description": "The first line, counted from 1."},
                "limit": {"type": "integer", "minimum": 1, "description": "How many lines; 2000 unless given."},
                "pages": {"type": "string", "description": "Of a PDF: '3' or '1-5'; 20 at most."},
            },
            "required": ["file_path"],
        },
    ),
    "Edit": (
        "Replace a text in a file by another. Read the file first; an edit fails if it changed since. 'old_string' must match exactly, with its indentation and without the line numbers that Read shows, and occur once: add lines around it until it does, or set 'replace_all'. Line ends and encoding are kept.",
        {
            "type": "object",
            "properties": {
                "file_path": {"type": "string", "description": "The file."},
                "old_string": {
                    "type": "string",
                    "description": "The text to replace: exactly, without line numbers. Empty: the file is new.",
                },
                "new_string": {"type": "string", "description": "The new text."},
                "replace_all": {"type": "boolean", "description": "Wherever it occurs."},
            },
            "required": ["file_path", "old_string", "new_string"],
        },
    ),
    "Write": (
        "Write a whole file. One that is there already must have been read, and is replaced: to change a part of it, use Edit. Its mode, encoding and line ends are kept.",
        {
            "type": "object",
            "properties": {
                "file_path": {"type": "string", "description": "The file; missing folders are made."},
                "content": {"type": "string", "description": "All of it."},
            },
            "required": ["file_path", "content"],
        },
    ),
    "NotebookEdit": (
        "Replace, insert or delete one cell of a Jupyter notebook. Read the notebook first: it shows the cells' ids.",
        {
            "type": "object",
            "properties": {
                "notebook_path": {"type": "string", "description": "The .ipynb file."},
                "new_source": {"type": "string", "description": "The cell's whole text."},
                "cell_id": {
                    "type": "string",
                    "description": "The cell, as Read names it; to insert: the one before, or none.",
                },
                "cell_type": {"type": "string", "enum": ["code", "markdown"], "description": "Needed to insert."},
                "edit_mode": {
                    "type": "string",
                    "enum": ["replace", "insert", "delete"],
                    "description": "'replace' unless given.",
                },
            },
            "required": ["notebook_path", "new_source"],
        },
    ),
    "Glob": (
        "Find files by name, the last changed first, at most 100. '**' stands for any folders; a pattern without a slash is about names at any depth. What .gitignore lists is left out.",
        {
            "type": "object",
            "properties": {
                "pattern": {"type": "string", "description": "Such as '**/*.py', 'src/**/test_*.{js,ts}'."},
                "path": {"type": "string", "description": "The folder to look in; the working folder unless given."},
            },
            "required": ["pattern"],
        },
    ),
    "Grep": (
        "Search the contents of files with ripgrep. What .gitignore lists, binary files and files over 100 MB are left out unless 'path' names the file.",
        {
            "type": "object",
            "properties": {
                "pattern": {
                    "type": "string",
                    "description": "A regular expression (ripgrep): escape braces and other signs.",
                },
                "path": {"type": "string", "description": "A file or folder; the working folder unless given."},
                "glob": {
                    "type": "string",
                    "description": "Only files whose names fit, such as '*.{ts,tsx}' or '!*.min.js'.",
                },
                "type": {"type": "string", "description": "Only files of this type: py, js, rust, ..."},
                "output_mode": {
                    "type": "string",
                    "enum": ["content", "files_with_matches", "count"],
                    "description": "'content': lines. 'files_with_matches' (default): names, newest first. 'count': how many lines.",
                },
                "-A": {
                    "type": "integer",
                    "minimum": 0,
                    "maximum": 1000,
                    "description": "Lines after each, for 'content'.",
                },
                "-B": {"type": "integer", "minimum": 0, "maximum": 1000, "description": "Lines before each."},
                "-C": {"type": "integer", "minimum": 0, "maximum": 1000, "description": "Lines before and after."},
                "-n": {"type": "boolean", "description": "Show line numbers; yes unless given."},
                "-i": {"type": "boolean", "description": "Upper and lower case are the same."},
                "multiline": {"type": "boolean", "description": "Matches may span lines; '.' fits a line end."},
                "head_limit": {
                    "type": "integer",
                    "minimum": 0,
                    "description": "Lines or files to show; 250 unless given, 0: all.",
                },
                "offset": {"type": "integer", "minimum": 0, "description": "Lines or files to skip."},
            },
            "required": ["pattern"],
        },
    ),
    "WebFetch": (
        "Read a page of the web, as Markdown or text. A redirect to another host is reported, not followed: call again with that address. Hosts on this machine or near it need a rule of the user's.",
        {
            "type": "object",
            "properties": {
                "url": {"type": "string", "maxLength": 8192, "description": "http or https, in ASCII."},
                "prompt": {
                    "type": "string",
                    "maxLength": 10000,
                    "description": "What you want to know of it; empty: all.",
                },
            },
            "required": ["url"],
        },
    ),
    "WebSearch": (
        "Search the web for pages; read them with WebFetch. Name the ones you used in your answer.",
        {
            "type": "object",
            "properties": {
                "query": {"type": "string", "minLength": 2, "maxLength": 1000, "description": "What to search for."},
                "allowed_domains": {
                    "type": "array",
                    "items": {"type": "string"},
                    "maxItems": 100,
                    "description": "Only these, with their subdomains.",
                },
                "blocked_domains": {
                    "type": "array",
                    "items": {"type": "string"},
                    "maxItems": 100,
                    "description": "None of these.",
                },
            },
            "required": ["query"],
        },
    ),
    "Agent": (
        "Have an agent do a part of the work in a conversation of its own; you get its report. For long searches and side work; look up a name or file that you know yourself. It sees nothing of this conversation: say all it needs, and what to report. Several at once: several calls in one reply. The user does not see its report; check what it claims. Kinds:\n- general-purpose: work of many steps, with all tools.\n- Explore: answers questions about code, and changes nothing. Say how thorough it shall be.",
        {
            "type": "object",
            "properties": {
                "description": {"type": "string", "description": "The task in three to five words."},
                "prompt": {"type": "string", "description": "The whole task."},
                "subagent_type": {"type": "string", "description": "The kind."},
                "model": {"type": "string", "description": "If not the usual one."},
                "run_in_background": {"type": "boolean", "description": "Return at once; its report comes later."},
            },
            "required": ["description", "prompt"],
        },
    ),
    "Recall": (
        "Search all that was said, called and returned in this session, also what was cleared or summarized since and is out of your view. Look here before you ask or work again.",
        {
            "type": "object",
            "properties": {
                "query": {"type": "string", "description": "Words, or a regular expression; case does not count."},
                "limit": {
                    "type": "integer",
                    "minimum": 1,
                    "maximum": 50,
                    "description": "How many hits, newest first; 10 unless given.",
                },
            },
            "required": ["query"],
        },
    ),
    "Sleep": (
        "Wait. Use it rather than the command 'sleep', for instance before you look again at a background command.",
        {
            "type": "object",
            "properties": {
                "seconds": {"type": "number", "maximum": 600, "exclusiveMinimum": 0, "description": "How long."}
            },
            "required": ["seconds"],
        },
    ),
    "TaskCreate": (
        "Note a task of your own, so that you and the user see what is left. A new task is pending.",
        {
            "type": "object",
            "properties": {
                "subject": {
                    "type": "string",
                    "minLength": 1,
                    "maxLength": 200,
                    "description": "What to do, as an order: 'Fix the parser'.",
                },
                "description": {
                    "type": "string",
                    "maxLength": 2000,
                    "description": "What must be known to do it, and when it is done.",
                },
                "activeForm": {
                    "type": "string",
                    "maxLength": 200,
                    "description": "The same while it is under way: 'Fixing the parser'.",
                },
            },
            "required": ["subject"],
        },
    ),
    "TaskUpdate": (
        "Change a task. Set 'in_progress' when you begin it and 'completed' as soon as it is done; never 'completed' while tests fail or something is missing. 'deleted' removes what is not needed.",
        {
            "type": "object",
            "properties": {
                "taskId": {"type": "string", "description": "As TaskCreate and TaskList name it."},
                "status": {
                    "type": "string",
                    "enum": ["pending", "in_progress", "completed", "deleted"],
                    "description": "Where it stands now.",
                },
                "subject": {"type": "string", "minLength": 1, "maxLength": 200, "description": "A better one."},
                "description": {"type": "string", "maxLength": 2000, "description": "A better one."},
            },
            "required": ["taskId"],
        },
    ),
    "TaskList": (
        "List the tasks: number, status, subject, description.",
        {"type": "object", "properties": {}, "required": []},
    ),
    "AskUserQuestion": (
        "Ask the user, and wait for the answer. For choices that neither their words nor the files settle; not whether you may go on, nor whether a plan is good (ExitPlanMode). Put the option that you advise first and add '(Recommended)' to its label.",
        {
            "type": "object",
            "properties": {
                "questions": {
                    "type": "array",
                    "items": {
                        "type": "object",
                        "properties": {
                            "question": {
                                "type": "string",
                                "minLength": 1,
                                "maxLength": 2000,
                                "description": "The whole question, with its question mark.",
                            },
                            "options": {
                                "type": "array",
                                "items": {
                                    "type": "object",
                                    "properties": {
                                        "label": {
                                            "type": "string",
                                            "minLength": 1,
                                            "maxLength": 200,
                                            "description": "One to five words.",
                                        },
                                        "description": {
                                            "type": "string",
                                            "maxLength": 2000,
                                            "description": "What choosing it means.",
                                        },
                                    },
                                    "required": ["label"],
                                },
                                "minItems": 2,
                                "maxItems": 4,
                                "description": "Different from each other.",
                            },
                            "header": {"type": "string", "maxLength": 200, "description": "A word or two, as a title."},
                            "multiSelect": {"type": "boolean", "description": "More than one may be chosen."},
                        },
                        "required": ["question", "options"],
                    },
                    "minItems": 1,
                    "maxItems": 4,
                    "description": "Asked in this order.",
                }
            },
            "required": ["questions"],
        },
    ),
    "EnterPlanMode": (
        "Begin with a plan: until the user approves one, nothing can be changed. For work with several ways to do it, or with many files; not for small or clear tasks.",
        {"type": "object", "properties": {}, "required": []},
    ),
    "ExitPlanMode": (
        "In plan mode only: show the finished plan to the user and ask for approval. Not for answers that need no changes to files.",
        {
            "type": "object",
            "properties": {
                "plan": {
                    "type": "string",
                    "minLength": 1,
                    "maxLength": 50000,
                    "description": "The whole plan, in Markdown: the user reads this.",
                }
            },
            "required": ["plan"],
        },
    ),
    "Skill": (
        "Load a skill: instructions for a kind of task, written by the user. Do it before you begin with a task that fits the description of one; then follow what it says.",
        {
            "type": "object",
            "properties": {
                "skill": {"type": "string", "description": "Its name, as listed."},
                "args": {"type": "string", "description": "What it is to be applied to, if anything."},
            },
            "required": ["skill"],
        },
    ),
}
