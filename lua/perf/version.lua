-- The version: the one place where it stands.
return "0.1.0"
