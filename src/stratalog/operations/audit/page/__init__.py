"""The report of an audit as one page of HTML, which needs no network: to attach to a ticket.

Tasks read the damaged regions once more; everything else comes from what the audit has read anyway. The page
draws itself, from a compact document inside it.

advice    the commands to run next
document  the report and its map as a compact document for the page
headers   decoded headers of batches, around and inside a damaged region
map       `AuditMap`: what the page shows in addition to the findings
page      puts the page together: template, style, programs, document
regions   a task: reads a damaged region and a little around it
strips    a partition's segments, gaps, epochs, transactions and retention

`page.html`, `page.css` and `js/` are what the page is made of.

Not here: checking. The audit decides what is wrong before a page is made.
"""
