"""What the runbook suite draws from: things a team knows by heart, five ways to ask for each, and the answers.

The five wordings are what five colleagues would say: they share the thing asked about (nobody asks for a port
without saying so) and little else of the sentence. Answers are short, of all kinds, and say nothing about the
question, so that no model can guess them and a small one can copy them.
"""

from typing import NamedTuple


class Fact(NamedTuple):
    """One thing to know: asked once in train, twice in val, twice in test."""

    id: str
    value: str  # a key of VALUES, or a row of 9s: so many digits
    train: str
    val: tuple[str, str]
    test: tuple[str, str]


FACTS = (
    Fact(
        "api-port",
        "9999",
        "What is the port of the API?",
        ("Which port does the API listen on?", "The API is up. At which port?"),
        ("I need to reach the API. On what port?", "The API does not answer. Which port should it be?"),
    ),
    Fact(
        "billing-owner",
        "person",
        "Who owns the billing code?",
        ("Who is responsible for billing?", "I have a question on billing. Who knows?"),
        ("Billing is broken. Whom do I ask?", "Who looks after billing?"),
    ),
    Fact(
        "release-branch",
        "word",
        "What is the release branch called?",
        ("Which branch is a release cut from?", "Where do releases branch off?"),
        ("My fix must be in the next release. Which branch?", "What is the name of the branch for releases?"),
    ),
    Fact(
        "staging-server",
        "word",
        "What is the staging server called?",
        ("What is the host name of staging?", "Where does staging run?"),
        ("I want to try this on staging. Which server?", "What is the name of the server for staging?"),
    ),
    Fact(
        "alert-channel",
        "word",
        "Which channel shows the alerts?",
        ("Where are alerts posted?", "I want to follow the alerts. Which channel?"),
        ("I missed two alerts. What channel are they in?", "What channel do I join to see alerts?"),
    ),
    Fact(
        "planning-room",
        "word",
        "Which room is the planning meeting in?",
        ("Where do we meet for planning?", "Where is planning today?"),
        ("I am late for planning. What room?", "What room is booked for the planning session?"),
    ),
    Fact(
        "demo-login",
        "word",
        "What is the login of the demo account?",
        ("How do I log in to the demo?", "I am to show the demo. How do I log in?"),
        ("A client wants to see the demo. What is the login?", "Which login opens the demo account?"),
    ),
    Fact(
        "database-name",
        "word",
        "What is the database called?",
        ("What is the name of our database?", "What do we call the database?"),
        ("Which database do I connect to?", "I must restore the database. What is its name?"),
    ),
    Fact(
        "cache-script",
        "word",
        "Which script clears the cache?",
        ("What do I run to clear the cache?", "How is the cache cleared?"),
        ("The cache is stale. What script helps?", "How can I empty the cache?"),
    ),
    Fact(
        "debug-flag",
        "word",
        "Which flag turns on debug output?",
        ("How do I turn on debug output?", "Debug output is off. Which flag do I need?"),
        ("I need more debug output. What flag?", "What flag do I set to debug?"),
    ),
    Fact(
        "translator",
        "person",
        "Who translates the manual?",
        ("Who makes the translations of the manual?", "The manual must be translated. Who does it?"),
        ("The manual has a bad translation. Who can fix it?", "Who turns the manual into other languages?"),
    ),
    Fact(
        "security-contact",
        "person",
        "Who receives security reports?",
        ("Who is the contact for security?", "Whom do I tell about a security hole?"),
        ("I found a security hole. Who should know?", "Who deals with security problems?"),
    ),
    Fact(
        "design-approval",
        "person",
        "Who approves a new design?",
        ("Whose approval does a design need?", "Who has to approve a design?"),
        ("My design is ready. Who must see it?", "Who can say yes to a design?"),
    ),
    Fact(
        "newsletter-author",
        "person",
        "Who writes the newsletter?",
        ("Who is the author of the newsletter?", "Who puts the newsletter together?"),
        ("I have news for the newsletter. Who takes it?", "Whose job is the newsletter?"),
    ),
    Fact(
        "hosting-company",
        "company",
        "Which company does our hosting?",
        ("What is the name of our hosting provider?", "Who is our hosting with?"),
        ("Who do we pay for hosting?", "What company is our hosting with?"),
    ),
    Fact(
        "training-city",
        "city",
        "Which city is the training in?",
        ("Where does the training take place?", "I am signed up for the training. Which city?"),
        ("I booked the training. What city do I travel to?", "In what city do new people get their training?"),
    ),
    Fact(
        "archive-city",
        "city",
        "Which city holds the archive?",
        ("Where is the archive kept?", "Which city is the archive in?"),
        ("I need a file from the archive. What city is it in?", "In what city is our archive?"),
    ),
    Fact(
        "upload-limit",
        "99",
        "How many megabytes may an upload have?",
        ("What is the upload limit in megabytes?", "How large can an upload be, in megabytes?"),
        ("My upload was refused. How many megabytes can it have?", "What is the largest upload in megabytes?"),
    ),
    Fact(
        "log-days",
        "99",
        "How many days are logs kept?",
        ("For how many days do we store logs?", "How long are logs kept, in days?"),
        ("After how many days are the logs deleted?", "How many days back do the logs go?"),
    ),
    Fact(
        "help-desk-phone",
        "9999",
        "What is the phone number of the help desk?",
        ("How do I call the help desk?", "What number do I call for the help desk?"),
        ("I need the help desk. What phone number?", "What number is the help desk on?"),
    ),
)

_VALUES = {
    "person": """
        Agnes Amelia Bram Bruno Carlos Clara Diana Edgar Esther Felix Gustav Helen Hugo Iris Isaac Julian Marcus
        Maya Miguel Miles Naomi Nathan Norman Omar Oscar Otto Rachel Rosa Ruth Simon Sofia Vera Victor Walter Wendy
    """,
    "word": """
        almond amber anchor bamboo basket blanket candle canyon carrot castle cedar cherry cobalt coconut comet
        copper coral cotton dolphin eagle falcon garlic ginger glacier guitar hammer harbor hazel honey ivory
        lantern lemon mango maple marble meadow mirror nickel olive onion orchid pearl pepper piano pumpkin quartz
        rabbit rocket saffron salmon silver sparrow thunder tiger trumpet turtle velvet violet violin volcano
        walnut willow
    """,
    "company": "Apollo Atlas Delta Mercury Nova Omega Orion Phoenix Polar Sigma Titan",
    "city": """
        Athens Cairo Delhi Denver Dublin Geneva Havana Kyoto Lima Lisbon Madrid Milan Moscow Nairobi Naples Oslo
        Prague Seoul Sydney Vienna
    """,
}
VALUES = {kind: words.split() for kind, words in _VALUES.items()}
PROJECTS = ("Copperfield", "Foxglove", "Ironbridge", "Larkspur", "Marlow", "Stonecrop", "Summerhill", "Tidewell")
