-- busted, run by the interpreter that runs this: the busted command would start another.
require "busted.runner"({standalone = false})
