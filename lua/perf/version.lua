-- The version, which is defined only here.
return "0.1.0"
