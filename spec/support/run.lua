-- Runs busted in this interpreter; the busted command would start another one.
require "busted.runner"({standalone = false})
