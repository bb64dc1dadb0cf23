"""The parts of `stratalog bench startup`: a directory to load, the rival, and a chart.

chart       a bar chart as SVG
directory   a log directory that is made clean or unclean again for each round
rival       Kafka's own loading of a copy, timed by its log line
strategies  how Kafka has loaded a log directory over the years

Not here: anything that another command uses.
"""
